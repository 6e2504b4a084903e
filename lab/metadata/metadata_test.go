// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/gce"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/lab/vm/qemu"
)

const tpu = "gcp-ct6e-standard-4t"

func TestAnswers(t *testing.T) {
	facts, err := machine.OpenFacts(tpu)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler(instance(facts, qemu.MAC)))
	defer server.Close()
	const interfaces = `[{"ipAliases":[],"mac":"02:70:6c:00:00:01","mtu":8896,"network":"projects/1/networks/default"},` +
		`{"ipAliases":[],"mac":"02:70:6c:00:00:02","mtu":8896,"network":"projects/1/networks/tpu-net-1"},` +
		`{"ipAliases":[],"mac":"02:70:6c:00:00:03","mtu":8896,"network":"projects/1/networks/tpu-net-2"}]` + "\n"
	for _, test := range []struct {
		path, flavor string
		status       int
		want         string
	}{
		{"/", "", 200, "computeMetadata/\n"},
		{"/computeMetadata/v1/", "Google", 200, "instance/\nproject/\n"},
		{"/computeMetadata/v1/instance/", "Google", 200, "attributes/\nmachine-type\nname\nnetwork-interfaces/\n"},
		{"/computeMetadata/v1/instance/machine-type", "Google", 200, "projects/1/machineTypes/" + tpu},
		{"/computeMetadata/v1/instance/machine-type", "", 403, "missing header Metadata-Flavor: Google\n"},
		{"/computeMetadata/v1/instance/network-interfaces/", "Google", 200, "0/\n1/\n2/\n"},
		{"/computeMetadata/v1/instance/network-interfaces/1/network", "Google", 200, "projects/1/networks/tpu-net-1"},
		{"/computeMetadata/v1/instance/network-interfaces/?recursive=true", "Google", 200, interfaces},
		{"/computeMetadata/v1/instance/network-interfaces/?recursive=true&alt=json", "Google", 200, interfaces},
		{"/computeMetadata/v1/instance/attributes/?recursive=true", "Google", 200, "{}\n"},
		{"/computeMetadata/v1/instance/attributes/physical_host", "Google", 404, "404 page not found\n"},
		{"/computeMetadata/v1/project/numeric-project-id", "Google", 200, "1"},
		{"/latest/meta-data", "Google", 404, "404 page not found\n"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.flavor != "" {
			r.Header.Set("Metadata-Flavor", test.flavor)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != test.status || answer.Header.Get("Metadata-Flavor") != "Google" {
			t.Errorf("%s: status %d, flavor %q", test.path, answer.StatusCode, answer.Header.Get("Metadata-Flavor"))
		}
		if diff := cmp.Diff(test.want, string(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.path, diff)
		}
	}
}

// What the agent makes of it, over its own client: the selector of the TPU
// example's claim is met by two NICs of three.
func TestTheAgentUnderstandsIt(t *testing.T) {
	for _, test := range []struct {
		machine string
		want    []string
	}{
		{tpu, []string{"default", "tpu-net-1", "tpu-net-2"}},
		// Its file names no networks: unknown is absent.
		{"a3-ultragpu-8g", make([]string, 8)},
	} {
		t.Run(test.machine, func(t *testing.T) {
			facts, err := machine.OpenFacts(test.machine)
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- Serve(ctx, l, facts) }()
			t.Cleanup(func() {
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
			provider, err := gce.New(l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			var devices []cloud.Device
			for i := range facts.NICs {
				devices = append(devices, cloud.Device{MAC: strings.ToUpper(qemu.MAC(i + 1))})
			}
			answers, err := provider.Lookup(t.Context(), devices)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range answers {
				if diff := cmp.Diff(model.TextAttribute(test.machine), a.Attributes["gce.dra.net/machineType"]); diff != "" {
					t.Errorf("machineType (-want +got):\n%s", diff)
				}
				name := ""
				if v := a.Attributes["gce.dra.net/networkName"].Text; v != nil {
					name = *v
				}
				got = append(got, name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("networks (-want +got):\n%s", diff)
			}
		})
	}
}
