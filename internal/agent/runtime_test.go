// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"k8s.io/client-go/tools/cache"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
)

// The hooks do without most of what they are given, and say nothing: one that
// is forgotten here would only be slower, blind or mute.
func TestHooksAreGivenEverything(t *testing.T) {
	groups := t.TempDir()
	if err := os.WriteFile(filepath.Join(groups, "cgroup.controllers"), []byte("cpuset cpu\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	served := claims.Of(cpu.Driver{})
	a := &agent{
		Options: Options{CgroupRoot: groups}, preparers: []*claims.Preparer{{Driver: served}},
		pods: kube.PodsFrom(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)), events: kube.NewEvents(t.Context(), "node"), metrics: metrics.New(),
	}
	options, stop := a.hookOptions(t.Context())
	t.Cleanup(stop)
	for field, value := range reflect.ValueOf(options).Fields() {
		if value.IsZero() {
			t.Errorf("the hooks get no %s", field.Name)
		}
	}
}
