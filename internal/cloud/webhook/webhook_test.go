// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/model"
)

// able offers everything.
const able = `{"cloudProvider": true, "profileProvider": true}`

// answers are a webhook's, by path.
type answers map[string]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wanted := http.MethodPost
	if r.URL.Path == pathHealth {
		wanted = http.MethodGet
	}
	text, ok := a[r.URL.Path]
	switch {
	case r.Method != wanted:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case !ok:
		http.NotFound(w, r)
	default:
		_, _ = io.WriteString(w, text)
	}
}

func serve(t *testing.T, handler http.Handler) *Webhook {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return open(t, s.URL)
}

func open(t *testing.T, url string) *Webhook {
	t.Helper()
	w, err := New(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

var nic = cloud.Device{Name: "pci-0000-91-00-0", Interface: "eth1", MAC: "42:01:c0:a8:00:02", PCI: "0000:91:00.0"}

func TestLook(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers answers
		want    cloud.Answer
		omitted string
	}{
		{
			"everything", answers{
				pathAttributes: `{"acme.com/rack": {"string": "r7"}, "acme.com/slot": {"int": 3}, "acme.com/spare": {"bool": false}}`,
				pathConfig:     `{"interface": {"mtu": 8896}}`,
			},
			cloud.Answer{Config: []byte(`{"interface": {"mtu": 8896}}`), Attributes: map[string]model.Attribute{
				"acme.com/rack": model.TextAttribute("r7"), "acme.com/slot": model.NumberAttribute(3), "acme.com/spare": model.FlagAttribute(false),
			}}, "",
		},
		{"neither path", answers{}, cloud.Answer{}, ""},
		{"nothing to say", answers{pathAttributes: "{}", pathConfig: "null\n"}, cloud.Answer{}, ""},
		{
			"one bad attribute costs no other", answers{
				pathAttributes: `{"acme.com/rack": {"string": 7}, "acme.com/slot": {"int": 3}, "acme.com/v": {"version": "1.0.0"}, "acme.com/two": {"int": 1, "bool": true}, "acme.com/half": {"int": 1.5}}`,
			},
			cloud.Answer{Attributes: map[string]model.Attribute{"acme.com/slot": model.NumberAttribute(3)}}, `attribute "acme.com/rack": want {"string": TEXT}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.answers[pathHealth] = able
			got, err := serve(t, test.answers).Lookup(t.Context(), []cloud.Device{nic})
			if err != nil || got[0].Err != nil {
				t.Fatal(errors.Join(err, got[0].Err))
			}
			if omitted := strings.Join(got[0].Omitted, "; "); !strings.Contains(omitted, test.omitted) || test.omitted == "" && omitted != "" {
				t.Errorf("left out: %q, want %q", omitted, test.omitted)
			}
			got[0].Omitted = nil
			if diff := cmp.Diff(test.want, got[0]); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLookFailsForOneDevice(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers answers
		want    string
	}{
		{"no object", answers{pathAttributes: `["acme.com/rack"]`}, "/GetDeviceAttributes: the answer is no object of attributes"},
		{"no JSON", answers{pathAttributes: "<html>"}, "/GetDeviceAttributes: the answer is no object of attributes"},
		{"a name twice", answers{pathAttributes: `{"acme.com/a": {"int": 1}, "acme.com/a": {"int": 2}}`}, "acme.com/a"},
		{"too much", answers{pathAttributes: strings.Repeat(" ", maxBody+1)}, "too large"},
		{"an unknown field", answers{pathConfig: `{"interface": {"mtuu": 9000}}`}, "/GetDeviceConfig: the answer is no NetworkConfig"},
		{"a field of the wrong type", answers{pathConfig: `{"interface": {"mtu": "9000"}}`}, "/GetDeviceConfig: the answer is no NetworkConfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.answers[pathHealth] = able
			got, err := serve(t, test.answers).Lookup(t.Context(), []cloud.Device{nic})
			if err != nil || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), test.want) {
				t.Errorf("Lookup = %v, %v; want the device's error with %q", got, err, test.want)
			}
		})
	}
}

func TestLookIsRefused(t *testing.T) {
	for _, test := range []struct{ name, health, want string }{
		{"says no", `{"cloudProvider": false, "profileProvider": true}`, `says "cloudProvider": false: it is not asked about devices: mend it, or start the agent with another --cloud-provider`},
		{"says nothing", `{}`, `says "cloudProvider": false`},
		{"the wrong type", `{"cloudProvider": "yes"}`, `/health: the answer is not {"cloudProvider": true or false`},
		{"no JSON", `ok`, `/health: the answer is not`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := serve(t, answers{pathHealth: test.health, pathAttributes: `{"acme.com/rack": {"string": "r7"}}`})
			if _, err := w.Lookup(t.Context(), []cloud.Device{nic}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Lookup = %v, want %q", err, test.want)
			}
		})
	}
	if _, err := open(t, "http://127.0.0.1:1").Lookup(t.Context(), []cloud.Device{nic}); err == nil {
		t.Error("a webhook that is not there gave an answer")
	}
	newer := serve(t, answers{pathHealth: `{"cloudProvider": true, "profileProvider": true, "runtimeHook": true}`})
	if err := newer.Probe(t.Context()); err != nil {
		t.Errorf("a webhook that offers more than is known is refused: %v", err)
	}
}

// Every device's request waits for all the others of its batch: asked one after
// another, none would ever be answered.
func TestDevicesAreAskedAtTheSameTime(t *testing.T) {
	var here sync.WaitGroup
	here.Add(atOnce)
	w := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case pathHealth:
			fmt.Fprint(rw, able)
		case pathAttributes:
			here.Done()
			here.Wait()
			fmt.Fprint(rw, `{"acme.com/rack": {"string": "r7"}}`)
		default:
			http.NotFound(rw, r)
		}
	}))
	got, err := w.Lookup(t.Context(), make([]cloud.Device, atOnce))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		if a.Err != nil || len(a.Attributes) != 1 {
			t.Errorf("answer %v", a)
		}
	}
}

func profileRequestOf(profile string) cloud.ProfileRequest {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = "default", "net", "u1"
	return cloud.ProfileRequest{Device: nic, Claim: claim, Config: &v1alpha1.NetworkConfig{Profile: ptr.To(profile)}}
}

func TestProfile(t *testing.T) {
	status := func(code int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == pathHealth {
				fmt.Fprint(w, able)
				return
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		})
	}
	for _, test := range []struct {
		name    string
		handler http.Handler
		want    string
		refused string
	}{
		{"an address", answers{pathHealth: able, pathProfile: `{"interface": {"addresses": ["10.0.0.7/24"]}}`}, `{"interface": {"addresses": ["10.0.0.7/24"]}}`, ""},
		{"nothing", answers{pathHealth: able, pathProfile: "{}"}, "", ""},
		{"an unknown profile", status(http.StatusNotFound, "no such profile"), "", `HTTP status 404 "no such profile"`},
		{"a conflict", status(http.StatusConflict, "the address is in use"), "", `HTTP status 409 "the address is in use"`},
		{"a long story", status(http.StatusInternalServerError, strings.Repeat("x", 10000)), "", `HTTP status 500 "` + strings.Repeat("x", maxReason) + `"`},
		{"no NetworkConfig", answers{pathHealth: able, pathProfile: `{"address": "10.0.0.7/24"}`}, "", "the answer is no NetworkConfig"},
		{"not offered", answers{pathHealth: `{"cloudProvider": true}`, pathProfile: "{}"}, "", `says "profileProvider": false`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := serve(t, test.handler).Profile(t.Context(), profileRequestOf("acme.com/pool"))
			switch {
			case test.refused == "" && (err != nil || string(got) != test.want):
				t.Errorf("Profile = %s, %v; want %s", got, err, test.want)
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("Profile = %s, %v; want a refusal with %q", got, err, test.refused)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	r := cloud.ReleaseRequest{Device: nic, ClaimUID: "u1", Config: &v1alpha1.NetworkConfig{Profile: ptr.To("acme.com/pool")}}
	var got releaseRequest
	heard := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathRelease {
			_ = json.NewDecoder(r.Body).Decode(&got)
		}
	}))
	if err := heard.Release(t.Context(), r); err != nil {
		t.Error(err)
	}
	if got.ClaimUID != "u1" || got.Device.MAC != nic.MAC || *got.Config.Profile != "acme.com/pool" {
		t.Errorf("the webhook heard %+v", got)
	}
	if err := serve(t, answers{}).Release(t.Context(), r); err != nil {
		t.Errorf("of a webhook that gives nothing: %v", err)
	}
	if err := open(t, "http://127.0.0.1:1").Release(t.Context(), r); err == nil {
		t.Error("a webhook that is away heard it")
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "webhook.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answers{pathHealth: able, pathAttributes: `{"acme.com/rack": {"string": "r7"}}`}, ReadHeaderTimeout: time.Minute}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	got, err := open(t, "unix://"+path).Lookup(t.Context(), []cloud.Device{nic})
	if err != nil || len(got[0].Attributes) != 1 {
		t.Errorf("Lookup = %v, %v", got, err)
	}
}

func TestRedirectIsRefused(t *testing.T) {
	w := serve(t, http.RedirectHandler("http://198.51.100.1/", http.StatusTemporaryRedirect))
	if err := w.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "must not redirect") {
		t.Errorf("Probe = %v", err)
	}
}

func TestURL(t *testing.T) {
	for _, test := range []struct {
		url   string
		ok    bool
		clear bool
	}{
		{"http://127.0.0.1:8080", true, false},
		{"http://localhost:8080/", true, false},
		{"http://[::1]:8080", true, false},
		{"http://webhook.kube-system.svc:8080/v1", true, true},
		{"https://webhook.kube-system.svc", true, false},
		{"unix:///run/webhook.sock", true, false},
		{"", false, false},
		{"unix://run/webhook.sock", false, false},
		{"127.0.0.1:8080", false, false},
		{"ftp://127.0.0.1", false, false},
		{"https://me:secret@host", false, false},
		{"https://host?x=1", false, false},
		{"://", false, false},
	} {
		w, err := New(test.url)
		if (err == nil) != test.ok {
			t.Errorf("New(%q): %v", test.url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
		if err == nil && w.InTheClear() != test.clear {
			t.Errorf("%q: InTheClear = %v", test.url, w.InTheClear())
		}
	}
}

func FuzzDecodeAttributes(f *testing.F) {
	f.Add([]byte(`{"acme.com/rack": {"string": "r7"}, "acme.com/slot": {"int": 3}}`))
	f.Add([]byte(`{"a": null, "b": {"bool": true, "int": 1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		attributes, _, err := decodeAttributes(text)
		if err != nil && attributes != nil {
			t.Error("an error and attributes")
		}
		for name, v := range attributes {
			if v == (model.Attribute{}) {
				t.Errorf("attribute %q has no value", name)
			}
		}
	})
}
