// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/nccltopo"
)

// An agent goes on without a topology file that is not there, or is none.
func TestTopologyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file, refused string
		pairs         int
	}{
		"none named":       {},
		"one of Azure":     {file: "../nccltopo/testdata/azure-nd96isr-h100-v5.xml", pairs: 8},
		"one that is gone": {file: filepath.Join(dir, "nowhere.xml"), refused: "no such file"},
		"one that is cut":  {file: write("cut.xml", "<system version=\"1\">\n<cpu"), refused: "cut.xml: line 2: unexpected EOF"},
		"one that is huge": {file: write("huge.xml", strings.Repeat(" ", nccltopo.MaxBytes+1)), refused: "at most 1048576 bytes"},
		"a folder":         {file: dir, refused: "want a regular file"},
		"a pipe":           {file: pipe, refused: "want a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{Options: Options{NCCLTopologyFile: tc.file}}
			if got := a.readTopologyFile(t.Context()); len(got) != tc.pairs {
				t.Errorf("%d pairs, want %d", len(got), tc.pairs)
			}
			if tc.refused == "" {
				return
			}
			if _, err := pairsOf(tc.file); err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%v, want %s", err, tc.refused)
			}
		})
	}
}

// A file that is none is told on the node; one that a node lacks is no fault.
func TestUnreadTopologyFileIsTold(t *testing.T) {
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.xml")
	if err := os.WriteFile(cut, []byte("<system version=\"1\">\n<cpu"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	events := kube.NewEvents(t.Context(), "node-1")
	go events.Run(t.Context(), client)
	var told []string
	agenttest.Eventually(t, "the event", func() bool {
		// Events are lost until somebody takes them.
		for _, file := range []string{filepath.Join(dir, "nowhere.xml"), cut} {
			a := &agent{Options: Options{NCCLTopologyFile: file}, events: events}
			if pairs := a.readTopologyFile(t.Context()); len(pairs) > 0 {
				t.Errorf("%s: pairs %v", file, pairs)
			}
		}
		list, err := client.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told = nil
		for _, e := range list.Items {
			told = append(told, e.InvolvedObject.Kind+" "+e.InvolvedObject.Name+": "+e.Type+" "+e.Reason+": "+e.Message)
		}
		return len(told) > 0
	})
	want := []string{"Node node-1: Warning TopologyFileUnread: read topology file " + cut + ": line 2: unexpected EOF; NICs are published without their GPUs"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A host that stands in for a machine has that machine's pairs.
func TestPairsOfAMachineFile(t *testing.T) {
	for name, want := range map[string]int{"": 0, "azure-nd96isr-h100-v5": 8, "a3-ultragpu-8g": 0} {
		o := DefaultOptions()
		o.Machine = name
		look, err := scanOptions(o)
		if err != nil || len(look.PairedGPUs) != want {
			t.Errorf("machine %q: %d pairs, %v; want %d", name, len(look.PairedGPUs), err, want)
		}
	}
}
