// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/controlplane"
)

// webhookCases is what NVIDIA's webhook is asked, and webhookAnswers what it answered:
// the tests of plumbline claim lint read both.
const (
	webhookCases   = "../../internal/cli/claim/testdata/nvidia-webhook.yaml"
	webhookAnswers = "../../internal/cli/claim/testdata/nvidia-webhook.answers.yaml"
)

// TestNVIDIAWebhook asks NVIDIA's own admission webhook about parameters of its driver, in
// claims and templates of each version of the API, and compares its answers with those
// recorded; -update records anew. TestLintIsAsStrictAsNVIDIAsWebhook holds lint to them.
func TestNVIDIAWebhook(t *testing.T) {
	text, err := os.ReadFile(webhookCases)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name       string  `json:"name"`
		Driver     *string `json:"driver"`
		Parameters string  `json:"parameters"`
		Differs    string  `json:"differs"`
	}
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Name         string `json:"name"`
		WithGates    string `json:"withGates"`
		WithoutGates string `json:"withoutGates,omitempty"`
	}
	with := startNVIDIAWebhook(t, "TimeSlicingSettings=true,MPSSupport=true,PassthroughSupport=true")
	without := startNVIDIAWebhook(t, "")
	var answers []answer
	for _, c := range cases {
		driver := "gpu.nvidia.com"
		if c.Driver != nil {
			driver = *c.Driver
		}
		said := answer{c.Name, with.answer(t, driver, c.Parameters), without.answer(t, driver, c.Parameters)}
		if said.WithoutGates == said.WithGates {
			said.WithoutGates = ""
		}
		answers = append(answers, said)
	}
	for _, b := range docstest.Blocks(t, "gpu.md") {
		if b.Kind != "manifest" {
			continue
		}
		for _, object := range objectsOf(t, []byte(b.Text)) {
			text, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if said := with.review(t, "v1", object.GetKind(), string(text)); said != "accepts" {
				t.Errorf("docs/gpu.md, manifest %s: the webhook %s", b.Name, said)
			}
		}
	}
	recorded, err := yaml.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, webhookAnswers, fmt.Sprintf(`# What NVIDIA's admission webhook %s answers to nvidia-webhook.yaml, with the feature
# gates that its checks know, and without them where that differs. Written by go test ./controlplane -run
# TestNVIDIAWebhook -update.
%s`, build.NVIDIAVersion, recorded))
}

// nvidiaWebhook is a process of NVIDIA's webhook.
type nvidiaWebhook struct {
	url    string
	client *http.Client
}

// startNVIDIAWebhook runs NVIDIA's webhook until the test ends. It listens on all
// addresses, since it has no option for one, and is asked on the loopback.
func startNVIDIAWebhook(t *testing.T, gates string) nvidiaWebhook {
	t.Helper()
	program := builtProgram(t, "nvidia/*/webhook")
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string][]byte{"tls.crt": certificate, "tls.key": key}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(program, "--port="+strconv.Itoa(ports[0]), "--feature-gates="+gates,
		"--tls-cert-file="+filepath.Join(dir, "tls.crt"), "--tls-private-key-file="+filepath.Join(dir, "tls.key"))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, []string{"HOME=" + dir}, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("webhook with gates %q:\n%s", gates, log.Bytes())
		}
	})
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		t.Fatal("the certificate cannot be read")
	}
	w := nvidiaWebhook{
		url:    fmt.Sprintf("https://127.0.0.1:%d", ports[0]),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: time.Minute},
	}
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		response, err := w.client.Get(w.url + "/readyz")
		if last = err; err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	}); err != nil {
		t.Fatalf("the webhook is not ready: %v: %v", err, last)
	}
	return w
}

// answer is what the webhook says of a configuration: the same wherever it stands.
func (w nvidiaWebhook) answer(t *testing.T, driver, parameters string) string {
	t.Helper()
	first := ""
	for _, version := range []string{"v1", "v1beta1", "v1beta2"} {
		for _, kind := range []string{"ResourceClaim", "ResourceClaimTemplate"} {
			got := strings.ReplaceAll(w.review(t, version, kind, claimText(version, kind, driver, []string{parameters})), "spec.spec.", "spec.")
			if first == "" {
				first = got
			}
			if got != first {
				t.Errorf("%s in a %s of %s: %s; in a claim of v1: %s", parameters, kind, version, got, first)
			}
		}
	}
	return first
}

// review sends an object as an API server does.
func (w nvidiaWebhook) review(t *testing.T, version, kind, object string) string {
	t.Helper()
	ask := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       types.UID("asked"),
			Kind:      metav1.GroupVersionKind{Group: "resource.k8s.io", Version: version, Kind: kind},
			Resource:  metav1.GroupVersionResource{Group: "resource.k8s.io", Version: version, Resource: strings.ToLower(kind) + "s"},
			Operation: admissionv1.Create,
			Object:    runtime.RawExtension{Raw: []byte(object)},
		},
	}
	body, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.client.Post(w.url+"/validate-resource-claim-parameters", "application/json", bytes.NewReader(body))
	if errors.Is(err, io.EOF) {
		return "crashes" // no answer: the server ends the connection of a handler that panics
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	var said admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &said); err != nil || said.Response == nil || said.Response.UID != ask.Request.UID {
		t.Fatalf("%s: %s answers %s: %v", object, response.Status, text, err)
	}
	if said.Response.Allowed {
		return "accepts"
	}
	return "refuses: " + said.Response.Result.Message
}
