// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package clitest runs commands in tests, and compares what they print with golden
// files and with the documentation. Only tests import it; no command is known
// here.
package clitest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/golden"
)

// Run runs a command with arguments and returns all that it prints. No
// configuration of this machine's user is looked at.
func Run(t *testing.T, cmd *cobra.Command, stdin string, args ...string) (string, error) {
	t.Helper()
	var all bytes.Buffer
	err := execute(t, cmd, stdin, &all, &all, args)
	return all.String(), err
}

// Streams is Run with the standard output and the standard error by themselves.
func Streams(t *testing.T, cmd *cobra.Command, stdin string, args ...string) (out, errOut string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	err = execute(t, cmd, stdin, &o, &e, args)
	return o.String(), e.String(), err
}

func execute(t *testing.T, cmd *cobra.Command, stdin string, out, errOut io.Writer, args []string) error {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	cmd.SetArgs(append([]string{}, args...))
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(t.Context())
}

// Nodes are the nodes of a folder that has a file of ResourceSlices for each, called
// by the node's name, and those slices.
func Nodes(t *testing.T, folder string) []runtime.Object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: files %v, error %v", folder, files, err)
	}
	var objects []runtime.Object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var slice resourceapi.ResourceSlice
			if err == nil {
				err = yaml.UnmarshalStrict(document, &slice)
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if slice.Kind != "" { // the heading is a document of its own
				objects = append(objects, &slice)
			}
		}
	}
	return objects
}

// Shuffled has the devices of each slice in another order, as NVIDIA's driver publishes them
// after each start.
func Shuffled(objects []runtime.Object, seed uint64) []runtime.Object {
	order := rand.New(rand.NewPCG(seed, 0))
	var all []runtime.Object
	for _, o := range objects {
		o = o.DeepCopyObject()
		if s, ok := o.(*resourceapi.ResourceSlice); ok {
			devices := s.Spec.Devices
			order.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
		}
		all = append(all, o)
	}
	return all
}

// Golden compares with a file of testdata, which -update rewrites.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	golden.Assert(t, filepath.Join("testdata", name), got)
}

// Documented compares with a block of a page of docs, which -update rewrites.
func Documented(t *testing.T, page, kind, name, got string) {
	t.Helper()
	if golden.Update() {
		docstest.Rewrite(t, page, kind, name, got)
	}
	if diff := cmp.Diff(docstest.Get(t, page, kind, name).Text, got); diff != "" {
		t.Errorf("%s, %s %s (-is +prints), -update rewrites it:\n%s", page, kind, name, diff)
	}
}
