// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// tryNameClaims tries the shipped policy that names claims in containers.
func tryNameClaims(t *testing.T, restConfig *rest.Config) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(restConfig)
	var cases struct {
		Cases []struct {
			Name  string            `json:"name"`
			Pod   corev1.Pod        `json:"pod"`
			Named map[string]string `json:"named"`
		} `json:"cases"`
	}
	text, err := os.ReadFile("../../deploy/testdata/nameclaims.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	create := func(ctx context.Context, pod corev1.Pod) (map[string]string, error) {
		pod.Name = "try"
		made, err := client.CoreV1().Pods("default").Create(ctx, &pod, dryRun)
		if err != nil {
			return nil, err
		}
		named := map[string]string{}
		for _, c := range append(made.Spec.InitContainers, made.Spec.Containers...) {
			var names []string
			for _, claim := range c.Resources.Claims {
				names = append(names, strings.TrimSuffix(claim.Name+"/"+claim.Request, "/"))
			}
			named[c.Name] = strings.Join(names, " ")
		}
		return named, nil
	}
	probe := cases.Cases[1] // named by no container
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		named, err := create(ctx, probe.Pod)
		return err == nil && cmp.Equal(probe.Named, named), nil
	}); err != nil {
		t.Fatalf("the policy never named a claim: %v", err)
	}
	for _, tc := range cases.Cases {
		t.Run(tc.Name, func(t *testing.T) {
			named, err := create(t.Context(), tc.Pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.Named, named); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}
