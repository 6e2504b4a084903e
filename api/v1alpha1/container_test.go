// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
)

// container is a configuration with so many mounts, and variables as NAME=value.
func container(mounts int, env ...string) *v1alpha1.NetworkConfig {
	c := &v1alpha1.ContainerConfig{Env: map[string]string{}}
	for i := range mounts {
		at := fmt.Sprintf("/opt/%d", i)
		c.Mounts = append(c.Mounts, v1alpha1.MountConfig{HostPath: &at, ContainerPath: &at})
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		c.Env[name] = value
	}
	return &v1alpha1.NetworkConfig{Container: c}
}

func TestMountPaths(t *testing.T) {
	const (
		noPath   = `want an absolute path such as /usr/local/gib, not "/" alone, without "..", "." and a slash at its end`
		reserved = ", which is the system's and plumbline's: want a path of its own, such as /usr/local/gib"
	)
	// of says what is wrong with a path on either side; the container has more to refuse.
	type of struct{ host, container string }
	for path, want := range map[string]of{
		"/usr/local/gib":                   {},
		"/opt":                             {},
		"/run/gib":                         {},
		"/devices":                         {},
		"/..gib":                           {},
		"/a b":                             {},
		"/" + strings.Repeat("p", 1023):    {},
		"":                                 {noPath, noPath},
		"/":                                {noPath, noPath},
		"usr/local/gib":                    {noPath, noPath},
		"/usr/local/gib/":                  {noPath, noPath},
		"/usr//local":                      {noPath, noPath},
		"/usr/./local":                     {noPath, noPath},
		"/usr/../dev":                      {noPath, noPath},
		"/usr/..":                          {noPath, noPath},
		"/..":                              {noPath, noPath},
		"/usr\nlocal":                      {noPath, noPath},
		"/usr\x00":                         {noPath, noPath},
		"/" + strings.Repeat("p", 1024):    {"Too long", "Too long"},
		"/dev":                             {"", "is at, above or below /dev" + reserved},
		"/dev/shm":                         {"", "is at, above or below /dev" + reserved},
		"/proc/sys":                        {"", "is at, above or below /proc" + reserved},
		"/sys":                             {"", "is at, above or below /sys" + reserved},
		"/run":                             {"", "is at, above or below /run/plumbline" + reserved},
		"/run/plumbline/nccl-topology.xml": {"", "is at, above or below /run/plumbline" + reserved},
		"/run/kubernetes.io":               {"", "is at, above or below /run/kubernetes.io" + reserved},
		"/var":                             {"", "is at, above or below /var/run" + reserved},
		"/var/run/gib":                     {"", "is at, above or below /var/run" + reserved},
	} {
		c := container(1)
		for field, want := range map[string]string{"hostPath": want.host, "containerPath": want.container} {
			right := "/opt/right"
			c.Container.Mounts[0] = v1alpha1.MountConfig{HostPath: &path, ContainerPath: &right}
			if field == "containerPath" {
				c.Container.Mounts[0] = v1alpha1.MountConfig{HostPath: &right, ContainerPath: &path}
			}
			err := c.Validate()
			if (err == nil) != (want == "") ||
				err != nil && (!strings.HasPrefix(err.Error(), "container.mounts[0]."+field+": ") || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s %.80q: %v, want %q", field, path, err, want)
			}
		}
	}
	twice := container(2)
	twice.Container.Mounts[1].ContainerPath = twice.Container.Mounts[0].ContainerPath
	if err := twice.Validate(); err == nil || err.Error() != `container.mounts[1].containerPath: Duplicate value: "/opt/0"` {
		t.Error(err)
	}
	if err := container(16).Validate(); err != nil {
		t.Error(err)
	}
	if err := container(17).Validate(); err == nil || err.Error() != "container.mounts: Too many: 17: must have at most 16 items" {
		t.Error(err)
	}
}

func TestVariables(t *testing.T) {
	const (
		noName = "want a variable's name: 1-128 letters, digits and '_', no digit first"
		marks  = "is a name that plumbline marks containers by: want another"
		ofNCCL = "is set by environment: nccl, which knows the devices of each container: want that, or it in the pod"
		noLine = "want at most 4096 bytes on one line, without control characters"
	)
	for variable, want := range map[string]string{
		"LD_LIBRARY_PATH=/usr/local/gib/lib64": "",
		"LD_PRELOAD=/usr/local/gib/a.so":       "",
		"_=":                                   "",
		"a1=b=c":                               "",
		"NCCL_DEBUG=INFO":                      "",
		strings.Repeat("A", 128) + "=":         "",
		"A=" + strings.Repeat("v", 4096):       "",
		"=a":                                   noName,
		"A-B=":                                 noName,
		"1A=":                                  noName,
		"A B=":                                 noName,
		"Ä=":                                   noName,
		"A\n=":                                 noName,
		strings.Repeat("A", 129) + "=":         noName,
		"PLUMBLINE_CLAIM_uid_0=dra.net/eth0":   marks,
		"DRA_CPUSET_uid=0-3":                   marks,
		"NCCL_TOPO_FILE=/etc/topology.xml":     ofNCCL,
		"NCCL_IB_HCA==mlx5_0":                  ofNCCL,
		"NCCL_IB_GID_INDEX=3":                  ofNCCL,
		"NCCL_SOCKET_IFNAME=eth0":              ofNCCL,
		"UCX_NET_DEVICES=mlx5_0:1":             ofNCCL,
		"A=a\nB=b":                             noLine,
		"A=\x00":                               noLine,
		"A=\t":                                 noLine,
		"A=" + strings.Repeat("v", 4097):       noLine,
	} {
		name, _, _ := strings.Cut(variable, "=")
		err := container(0, variable).Validate()
		if (err == nil) != (want == "") ||
			err != nil && (!strings.HasPrefix(err.Error(), "container.env["+name+"]: Invalid value: ") || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%.80q: %v, want %q", variable, err, want)
		}
	}
	many := container(0)
	for i := range 65 {
		many.Container.Env[fmt.Sprintf("A%d", i)] = ""
	}
	if err := many.Validate(); err == nil || err.Error() != "container.env: Too many: 65: must have at most 64 items" {
		t.Error(err)
	}
	delete(many.Container.Env, "A0")
	if err := many.Validate(); err != nil {
		t.Error(err)
	}
}

// A profile's mounts give way to those of the class, its variables to those of the same
// name, and neither layer is changed.
func TestContainersMerge(t *testing.T) {
	profile := decode(t, `{"container": {"mounts": [{"hostPath": "/p/0", "containerPath": "/0"}, {"hostPath": "/p/1", "containerPath": "/1"}], "env": {"A": "p", "B": "p"}}}`)
	class := decode(t, `{"container": {"mounts": [{"hostPath": "/c/1", "containerPath": "/1"}], "env": {"B": "c"}}}`)
	merged, origins := v1alpha1.EffectiveNetworkConfig(v1alpha1.Layer{Source: "profile", Config: profile}, v1alpha1.Layer{Source: "class", Config: class})
	want := decode(t, `{"container": {"mounts": [{"hostPath": "/c/1", "containerPath": "/1"}], "env": {"A": "p", "B": "c"}}}`)
	if diff := cmp.Diff(want.Container, merged.Container); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	requireOriginOfEach(t, merged, origins)
	for path, source := range map[string]string{
		"container.mounts[0].hostPath": "class", "container.mounts[0].containerPath": "class", "container.env[A]": "profile", "container.env[B]": "class",
	} {
		if got := origins[path]; got != source {
			t.Errorf("%s is of the %q, want %q", path, got, source)
		}
	}
	if len(profile.Container.Mounts) != 2 || profile.Container.Env["B"] != "p" {
		t.Errorf("the profile has changed: %+v", profile.Container)
	}
	none, _ := v1alpha1.EffectiveNetworkConfig(v1alpha1.Layer{Source: "profile", Config: profile},
		v1alpha1.Layer{Source: "class", Config: decode(t, `{"container": {"mounts": []}}`)})
	if len(none.Container.Mounts) > 0 {
		t.Errorf("an empty list leaves %v", none.Container.Mounts)
	}
}

// What is the host's is no claim's to give, not even to take back.
func TestClaimsHaveNoContainer(t *testing.T) {
	const want = "container: Forbidden: gives containers what is the host's, which no claim may: want it in the parameters of a DeviceClass, by an administrator"
	for text, refused := range map[string]bool{
		`{}`: false, `{"container": null}`: false, `{"environment": "nccl"}`: false,
		`{"container": {}}`: true, `{"container": {"mounts": []}}`: true, `{"container": {"env": {"A": ""}}}`: true,
	} {
		err := decode(t, text).MistakesOfClaim().ToAggregate()
		if (err != nil) != refused || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want it refused: %t", text, err, refused)
		}
	}
}
