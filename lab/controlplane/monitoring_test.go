// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/render"
)

// prometheusRules is as much of the Prometheus operator as the API server needs to take its
// rules: the fields of a group and of an alert, and no others.
const prometheusRules = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: prometheusrules, singular: prometheusrule, kind: PrometheusRule}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              properties:
                groups:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name]
                  items:
                    type: object
                    required: [name]
                    properties:
                      name: {type: string, minLength: 1}
                      interval: {type: string}
                      rules:
                        type: array
                        items:
                          type: object
                          required: [expr]
                          properties:
                            alert: {type: string}
                            expr: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
                            for: {type: string, pattern: '^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$'}
                            labels: {type: object, additionalProperties: {type: string}}
                            annotations: {type: object, additionalProperties: {type: string}}
`

// ruleGroups is what a file of rules and a PrometheusRule have in common.
type ruleGroups struct {
	Groups []struct {
		Name  string
		Rules []struct{ Alert, Expr, For string }
	}
}

// TestMonitoringValues installs the chart with alerts and with a certificate of the
// administrator's on a real API server: it takes all of both, and has it afterwards.
func TestMonitoringValues(t *testing.T) {
	config := serving(t)
	said := &warnings{}
	config.WarningHandler = said
	a := newApplier(t, config)
	makeNamespace(t, a.client, deploy.Namespace, nil)
	manifests, err := render.Chart(deploy.Namespace, map[string]any{"metrics": map[string]any{
		"enabled": true, "tlsSecret": "metrics-certificate",
		"prometheusRule": map[string]any{"create": true, "labels": map[string]any{"release": "prometheus"}},
		"dashboard":      map[string]any{"create": true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range objectsOf(t, []byte(prometheusRules)) {
		if err := a.apply(t.Context(), definition, "", false); err != nil {
			t.Fatal(err)
		}
	}
	awaitRules(t, config)
	for _, object := range objectsOf(t, manifests) {
		if err := a.apply(t.Context(), object, deploy.Namespace, false); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		if warned := said.take(); strings.Contains(warned, "unknown field") {
			t.Errorf("%s %s: %s", object.GetKind(), object.GetName(), warned)
		}
	}

	var rules ruleGroups
	labels := a.read(t, schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"}, "plumbline", &rules)
	if labels["release"] != "prometheus" {
		t.Errorf("labels %v, want those by which a Prometheus chooses its rules", labels)
	}
	text, err := os.ReadFile("../../deploy/charts/plumbline/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want ruleGroups
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rules); diff != "" || len(want.Groups) == 0 {
		t.Errorf("rules that the cluster has (-file +cluster):\n%s", diff)
	}

	var agent appsv1.DaemonSetSpec
	a.read(t, appsv1.SchemeGroupVersion.WithResource("daemonsets"), "plumbline-agent", &agent)
	servesWith(t, "plumbline-agent", agent.Template.Spec)
	var operator appsv1.DeploymentSpec
	a.read(t, appsv1.SchemeGroupVersion.WithResource("deployments"), "plumbline-operator", &operator)
	servesWith(t, "plumbline-operator", operator.Template.Spec)
}

// awaitRules waits until the API server serves the kind whose definition is new.
func awaitRules(t *testing.T, config *rest.Config) {
	t.Helper()
	a := newApplier(t, config)
	rules := objectsOf(t, []byte("apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: served}\nspec: {}\n"))[0]
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return a.apply(ctx, rules, deploy.Namespace, true) == nil, nil
	}); err != nil {
		t.Fatalf("the API server never served PrometheusRules: %v", err)
	}
}

// read reads an object's spec, and returns its labels.
func (a applier) read(t *testing.T, resource schema.GroupVersionResource, name string, spec any) map[string]string {
	t.Helper()
	object, err := a.client.Resource(resource).Namespace(deploy.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(object.Object["spec"])
	if err == nil {
		err = json.Unmarshal(text, spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object.GetLabels()
}

// servesWith wants the first container to have the secret where its flag says.
func servesWith(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	const dir = "/etc/plumbline/metrics"
	c := pod.Containers[0]
	if !slices.Contains(c.Args, "--metrics-cert-dir="+dir) {
		t.Errorf("%s: arguments %q, want --metrics-cert-dir=%s", name, c.Args, dir)
	}
	for _, m := range c.VolumeMounts {
		if m.MountPath != dir {
			continue
		}
		for _, v := range pod.Volumes {
			if v.Name == m.Name && v.Secret != nil && v.Secret.SecretName == "metrics-certificate" && m.ReadOnly {
				return
			}
		}
	}
	t.Errorf("%s: no volume of the secret at %s", name, dir)
}
