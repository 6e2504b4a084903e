// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/nccl"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

// gib gives containers a folder of the host and a variable.
const gib = `{"container": {"mounts": [{"hostPath": "/home/kubernetes/bin/gib", "containerPath": "/usr/local/gib"}], "env": {"LD_LIBRARY_PATH": "/usr/local/gib/lib64"}}}`

var gibMount = driver.Mount{Source: "/home/kubernetes/bin/gib", Destination: "/usr/local/gib"}

// givenBy is a claim whose only layer of parameters is of a source.
func givenBy(source, parameters string, devices ...string) driver.Claim {
	c := claim(parameters, devices...)
	for i := range c.Devices {
		c.Devices[i].Configs[0].Source = source
	}
	return c
}

// What a class or the cloud gives is in the plan of a NIC, of an RDMA device without
// interface, and in a record that is read again; of a NIC that is only looked at it is not.
func TestPlanOfHostParts(t *testing.T) {
	want := &Container{Mounts: []driver.Mount{gibMount}, Env: map[string]string{"LD_LIBRARY_PATH": "/usr/local/gib/lib64"}}
	admin := givenBy("class", gib, "pci-0000-91-00-0")
	admin.Devices[0].AdminAccess = true
	for name, test := range map[string]struct {
		claim driver.Claim
		want  *Container
	}{
		"of a class":              {givenBy("class", gib, "pci-0000-91-00-0"), want},
		"of the cloud":            {givenBy("cloud", gib, "pci-0000-91-00-0"), want},
		"of a profile":            {givenBy("profile", gib, "pci-0000-91-00-0"), want},
		"of an RDMA device alone": {givenBy("class", gib, "pci-0000-95-00-0"), want},
		"nothing":                 {claim("", "pci-0000-91-00-0"), nil},
		"an empty object":         {givenBy("class", `{"container": {"mounts": []}}`, "pci-0000-91-00-0"), nil},
		"admin access":            {admin, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := planIn(t, test.claim)
			if err != nil {
				t.Fatal(err)
			}
			for _, read := range []func(driver.DeviceRecord) (Plan, error){ReadPlan, readBrief} {
				plan, err := read(r.Devices[0])
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, plan.Container); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// The holders of a NIC that is shared have it too.
func TestHostPartsOfShares(t *testing.T) {
	hosttest.NeedLink(t, "macvlan")
	l := sharedLab(t)
	c := shareOf("a", gib, "nic0")
	offer := model.Share{Type: model.ShareMacvlan, Slots: 2}
	if _, err := l.planShare(t, offer, c); err == nil || !strings.Contains(err.Error(), "container: Forbidden: ") {
		t.Errorf("a claim of a share gives what is the host's: %v", err)
	}
	c.Devices[0].Configs[0].Source = "class"
	r := l.mustPlanShare(t, offer, c)
	mounts, env, err := hostParts([]driver.Record{r})
	if err != nil || !slices.Equal(mounts, []driver.Mount{gibMount}) || !slices.Equal(env, []string{"LD_LIBRARY_PATH=/usr/local/gib/lib64"}) {
		t.Errorf("mounts %v, variables %q, %v", mounts, env, err)
	}
}

// A claim is refused, by Plan and without a node, in whatever layer of it the mistake is
// and whatever its class says.
func TestClaimsGiveNothingOfTheHost(t *testing.T) {
	const want = "parameters: container: Forbidden: gives containers what is the host's, which no claim may: want it in the parameters of a DeviceClass, by an administrator"
	for _, parameters := range []string{gib, `{"container": {}}`, `{"container": {"mounts": []}}`, `{"container": {"env": {"A": "b"}}}`} {
		c := claim(parameters, "pci-0000-91-00-0")
		c.Devices[0].Configs = append([]driver.Config{{Source: "class", Raw: []byte(gib)}}, c.Devices[0].Configs...)
		c.Devices[0].Configs = append(c.Devices[0].Configs, driver.Config{Source: "claim", Raw: []byte(`{}`)})
		if _, err := planIn(t, c); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v\nwant %s", parameters, err, want)
		}
		if err := CheckParameters(c.Devices)[0]; err == nil || err.Error() != want {
			t.Errorf("%s: without a node: error %v\nwant %s", parameters, err, want)
		}
	}
	if err := CheckParameters(givenBy("class", gib, "a").Devices)[0]; err != nil {
		t.Error(err)
	}
}

// holding is the record of a claim that gives containers something.
func holding(t *testing.T, name string, given Container) driver.Record {
	t.Helper()
	r := rdmaRecord(t, Plan{Container: &given})
	r.Claim.Name = name
	return r
}

// A container gets what all its NICs give it, each once and in their order; where two give
// different things it is refused, with the names of both.
func TestHostPartsOfOneContainer(t *testing.T) {
	mount := func(source, destination string) driver.Mount {
		return driver.Mount{Source: source, Destination: destination}
	}
	for name, test := range map[string]struct {
		given     []Container
		want, err string
	}{
		"one":                 {[]Container{{Mounts: []driver.Mount{gibMount}, Env: map[string]string{"B": "1", "A": "2"}}}, "/home/kubernetes/bin/gib:/usr/local/gib A=2 B=1", ""},
		"two of one class":    {[]Container{{Mounts: []driver.Mount{gibMount}, Env: map[string]string{"A": ""}}, {Mounts: []driver.Mount{gibMount}, Env: map[string]string{"A": ""}}}, "/home/kubernetes/bin/gib:/usr/local/gib A=", ""},
		"two classes":         {[]Container{{Mounts: []driver.Mount{mount("/b", "/b")}}, {Mounts: []driver.Mount{mount("/b", "/a")}, Env: map[string]string{"A": "/b"}}}, "/b:/b /b:/a A=/b", ""},
		"a path and a name":   {[]Container{{Mounts: []driver.Mount{mount("/1", "/A")}}, {Env: map[string]string{"A": "/2"}}}, "/1:/A A=/2", ""},
		"other folders":       {[]Container{{Mounts: []driver.Mount{mount("/1", "/a")}}, {Mounts: []driver.Mount{mount("/2", "/a")}}}, "", `container.mounts: /a: "/2", and claim default/c0, device pci-0000-91-00-0 says "/1"`},
		"other values":        {[]Container{{Env: map[string]string{"A": "1"}}, {}, {Env: map[string]string{"A": "2"}}}, "", `container.env: A: "2", and claim default/c0, device pci-0000-91-00-0 says "1"`},
		"nothing, and no one": {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var held []driver.Record
			for i, given := range test.given {
				held = append(held, holding(t, fmt.Sprintf("c%d", i), given))
			}
			e, err := (&Driver{}).ContainerEdits(t.Context(), held, "")
			if test.err != "" {
				last := held[len(held)-1].Claim
				want := "claim " + last.String() + ", device pci-0000-91-00-0: " + test.err + ": want the same of the classes of both, or a container for each"
				if err == nil || err.Error() != want {
					t.Errorf("error %v\nwant  %s", err, want)
				}
				if len(e.Mounts)+len(e.Env) > 0 {
					t.Errorf("beside the error it gets %+v", e)
				}
				return
			}
			var got []string
			for _, m := range e.Mounts {
				got = append(got, m.Source+":"+m.Destination)
			}
			if got := strings.Join(append(got, e.Env...), " "); err != nil || got != test.want {
				t.Errorf("it gets %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

// A record of a build that gave containers nothing is read as it was.
func TestRecordsFromBeforeHostParts(t *testing.T) {
	r := rdmaRecord(t, Plan{NCCL: &NCCL{}})
	if strings.Contains(string(r.Devices[0].Plan), "container") {
		t.Fatalf("the plan speaks of containers: %s", r.Devices[0].Plan)
	}
	if mounts, env, err := hostParts([]driver.Record{r}); err != nil || len(mounts)+len(env) > 0 {
		t.Errorf("mounts %v, variables %q, %v", mounts, env, err)
	}
}

// What the driver sets in containers itself a class cannot set.
func TestOwnNamesAreReserved(t *testing.T) {
	roce := nccl.Port{Device: "mlx5_0", Number: 1, Ethernet: true, GIDs: []nccl.GID{{Index: 3, IPv4: true}}}
	env, why := nccl.Environment([]nccl.NIC{{Interface: "net1", Ports: []nccl.Port{roce}}})
	if len(env) != 4 || why != "" {
		t.Fatalf("variables %q, %s: want all four", env, why)
	}
	for _, variable := range append(env, topologyEnv+"=") {
		name, _, _ := strings.Cut(variable, "=")
		c := &v1alpha1.NetworkConfig{Container: &v1alpha1.ContainerConfig{Env: map[string]string{name: ""}}}
		if err := c.Validate(); err == nil {
			t.Errorf("a class may set %s", name)
		}
	}
	at := topologyPath
	c := &v1alpha1.NetworkConfig{Container: &v1alpha1.ContainerConfig{Mounts: []v1alpha1.MountConfig{{HostPath: &at, ContainerPath: &at}}}}
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "container.mounts[0].containerPath: ") {
		t.Errorf("a class may mount something at %s: %v", at, err)
	}
}
