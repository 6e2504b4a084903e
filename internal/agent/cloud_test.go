// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/cloud/providers"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// newCloudAgent is an agent as far as its cloud goes, with a NIC eth0, on a machine
// that no cloud signed.
func newCloudAgent(t *testing.T, drivers []string, o providers.Options) *agent {
	t.Helper()
	dir := t.TempDir()
	records, err := journal.Open(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	dmi := filepath.Join(dir, "sys", "class", "dmi", "id")
	if err := os.MkdirAll(dmi, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dmi, "sys_vendor"), []byte("Dell Inc.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &agent{
		Options: Options{Drivers: drivers, StateDir: dir, SysfsRoot: filepath.Join(dir, "sys"), Cloud: o}, merged: &publish.MergedMachine{},
	}
	if err := a.openClouds(t.Context(), records, "boot"); err != nil {
		t.Fatal(err)
	}
	mac := "42:01:c0:a8:00:02"
	m, err := model.New(model.Machine{NICs: []model.NIC{{Interface: &model.Interface{Name: "eth0", MAC: &mac}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.merged.Update(m, nil); err != nil {
		t.Fatal(err)
	}
	a.clouds.cache.Watch(a.merged.Current())
	return a
}

// metadataServer is GCE's as far as the agent asks.
func metadataServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		if !strings.HasSuffix(r.URL.Path, "/network-interfaces/") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `[{"mac": "42:01:c0:a8:00:02", "network": "projects/7/networks/tpu-net-1"}]`)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// From the metadata server to the ResourceSlice.
func TestTheCloudsWordIsPublished(t *testing.T) {
	a := newCloudAgent(t, []string{slicecodec.DriverNet}, providers.Options{
		Provider: "GCE", Profiles: providers.Cloud, MetadataEndpoint: metadataServer(t),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.clouds.run(ctx)
	published := func() string {
		a.merged.Redescribe()
		v := a.merged.Current().NICs[0].Attributes["gce.dra.net/networkName"].Text
		if v == nil {
			return ""
		}
		return *v
	}
	agenttest.Eventually(t, "networkName is published", func() bool { return published() == "tpu-net-1" })
	select {
	case <-a.clouds.cache.Changed():
	default:
		t.Error("nobody is told to publish it")
	}
	if got := selects(t, tpuSelector, a.merged.Current()); !got {
		t.Error("the selector of the TPU example does not match")
	}
	if got := selects(t, guardedSelector, a.merged.Current()); !got {
		t.Error("the selector of docs/clouds.md does not match")
	}
}

// Selectors of examples/tpu-v6e-multi-nic and of docs/clouds.md.
const (
	tpuSelector     = `device.attributes["gce.dra.net"].networkName.startsWith("tpu-net")`
	guardedSelector = `"networkName" in device.attributes["gce.dra.net"] && ` + tpuSelector
)

// selects evaluates a selector as the scheduler does, on the machine's first
// NIC as it is published.
func selects(t *testing.T, expression string, m *model.Machine) bool {
	t.Helper()
	compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(expression, cel.Options{})
	if compiled.Error != nil {
		t.Fatal(compiled.Error)
	}
	d := slicecodec.Encode(m, slicecodec.DriverNet, slicecodec.CPUOptions{})[0]
	matches, _, err := compiled.DeviceMatches(t.Context(), cel.Device{Driver: slicecodec.DriverNet, Attributes: d.Attributes, Capacity: d.Capacity})
	if err != nil {
		t.Fatal(err)
	}
	return matches
}

func TestTheGuardedSelectorIsNoErrorOutsideOfTheCloud(t *testing.T) {
	a := newCloudAgent(t, []string{slicecodec.DriverNet}, providers.Options{Provider: providers.None, Profiles: providers.None})
	if selects(t, guardedSelector, a.merged.Current()) {
		t.Error("it matches a NIC without the attribute")
	}
}

func TestOnlyClaimsOfNICsAreResolved(t *testing.T) {
	a := newCloudAgent(t, []string{slicecodec.DriverNet, slicecodec.DriverCPU}, providers.Options{Provider: providers.None, Profiles: providers.None})
	nics, cpus := &claims.Preparer{Driver: claims.Driver{Planner: &netdev.Driver{}}}, &claims.Preparer{Driver: claims.Driver{Planner: cpu.Driver{}}}
	a.clouds.serve(nics)
	a.clouds.serve(cpus)
	if cpus.Resolve != nil || cpus.Release != nil || nics.Resolve == nil || nics.Release == nil {
		t.Fatal("want claims of NICs resolved, and no others")
	}
	claim := driver.Claim{ClaimRef: driver.ClaimRef{UID: "u1"}, Devices: []driver.Allocation{{
		Request: "nic", Device: "eth0", Configs: []driver.Config{{Source: "claim", Raw: []byte(`{"profile": "acme.com/pool"}`)}},
	}}}
	if _, err := nics.Resolve(t.Context(), claim); err == nil || !strings.Contains(err.Error(), "start its agent with --profile-provider") {
		t.Errorf("a profile that nobody resolves: %v", err)
	}
	claim.Devices[0].Configs[0].Raw = []byte(`{"interface": {"mtu": 9000}}`)
	if _, err := nics.Resolve(t.Context(), claim); err != nil {
		t.Errorf("a claim without a profile: %v", err)
	}
}

// From the metadata server to the claim: the cloud's layer lies below the class's
// and the claim's, and is waited for.
func TestTheCloudsRoutesLieBelowTheClaim(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"compute": {"vmSize": "Standard_D2s_v5"}, "network": {"interface": [{"macAddress": "4201C0A80002",
			"ipv4": {"ipAddress": [{"privateIpAddress": "10.9.0.4"}], "subnet": [{"address": "10.9.0.0", "prefix": "24"}]}}]}}`)
	}))
	t.Cleanup(s.Close)
	a := newCloudAgent(t, []string{slicecodec.DriverNet}, providers.Options{
		Provider: "AZURE", Profiles: providers.None, MetadataEndpoint: strings.TrimPrefix(s.URL, "http://"),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.clouds.run(ctx)
	nics := &claims.Preparer{Driver: claims.Driver{Planner: &netdev.Driver{}}}
	a.clouds.serve(nics)
	got, err := nics.Resolve(t.Context(), driver.Claim{ClaimRef: driver.ClaimRef{UID: "u1"}, Devices: []driver.Allocation{{
		Request: "nic", Device: "eth0", Configs: []driver.Config{{Source: "claim", Raw: []byte(`{"routes": []}`)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, l := range got.Devices[0].Configs {
		sources = append(sources, l.Source)
	}
	if diff := cmp.Diff([]string{"cloud", "claim"}, sources); diff != "" {
		t.Fatalf("layers (-want +got):\n%s", diff)
	}
	if text := string(got.Devices[0].Configs[0].Raw); !strings.Contains(text, `"source":"10.9.0.4/32"`) {
		t.Errorf("the cloud's layer is %s", text)
	}
}

// A webhook that resolves profiles and is no cloud provider keeps no claim of a
// server that no cloud signed.
func TestAWebhookOfProfilesAlone(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
			fmt.Fprint(w, `{"cloudProvider": false, "profileProvider": true}`)
		case "/GetProfileConfig":
			fmt.Fprint(w, `{"interface": {"mtu": 8896}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	a := newCloudAgent(t, []string{slicecodec.DriverNet}, providers.Options{Provider: providers.Auto, Profiles: providers.Webhook, WebhookURL: s.URL})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.clouds.run(ctx)
	for parameters, want := range map[string]int{`{}`: 1, `{"profile": "acme.com/pool"}`: 2} {
		claim := driver.Claim{
			ClaimRef: driver.ClaimRef{UID: "u1"}, Object: &resourceapi.ResourceClaim{},
			Devices: []driver.Allocation{{Request: "nic", Device: "eth0", Configs: []driver.Config{{Source: "claim", Raw: []byte(parameters)}}}},
		}
		got, err := a.clouds.profiles.Resolve(t.Context(), claim)
		if err != nil || len(got.Devices[0].Configs) != want {
			t.Errorf("a claim with %s has layers %v, %v; want %d", parameters, got.Devices[0].Configs, err, want)
		}
	}
}

// Options that are wrong for NICs are no reason to refuse an agent of CPUs.
func TestWithoutNICsNoCloudIsAsked(t *testing.T) {
	a := newCloudAgent(t, []string{slicecodec.DriverCPU}, providers.DefaultOptions())
	if got := len(a.clouds.cache.Candidates); got != 0 {
		t.Errorf("%d clouds are asked", got)
	}
}
