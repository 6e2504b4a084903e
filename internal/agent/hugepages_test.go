// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// A container whose limits have no huge pages would start and fail at its first
// page.
func TestHugepagesMustBeInThePodsLimits(t *testing.T) {
	claim := func(consumed map[string]string) driver.Claim {
		c := driver.Claim{ClaimRef: driver.ClaimRef{UID: "u", Namespace: "default", Name: "pages"}, Pods: []driver.PodRef{{UID: "p", Name: "trainer"}}}
		device := driver.Allocation{Consumed: map[string]resource.Quantity{}}
		for name, q := range consumed {
			device.Consumed[name] = resource.MustParse(q)
		}
		c.Devices = []driver.Allocation{device, {AdminAccess: true, Consumed: device.Consumed}}
		return c
	}
	both := map[string]string{"dra.cpu/cpu": "2", "dra.cpu/hugepages2Mi": "4Mi", "dra.cpu/hugepages1Gi": "2Gi"}
	for _, test := range []struct {
		name     string
		consumed map[string]string
		limits   map[corev1.ResourceName]string
		why      string
	}{
		{"none", map[string]string{"dra.cpu/cpu": "2", "dra.cpu/hugepages2Mi": "0"}, nil, ""},
		{"both", both, map[corev1.ResourceName]string{"hugepages-2Mi": "4Mi", "hugepages-1Gi": "4Gi"}, ""},
		{
			"no limit", both, map[corev1.ResourceName]string{"hugepages-1Gi": "2Gi", "cpu": "2"},
			"claim default/pages has 4Mi of hugepages-2Mi, and the containers of pod default/trainer that name it have a limit of 0: " +
				"want resources.limits hugepages-2Mi: 4Mi, without which the kubelet lets them take none of it",
		},
		{"too small", both, map[corev1.ResourceName]string{"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}, "has 2Gi of hugepages-1Gi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p", Namespace: "default", Name: "trainer"}}
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To("pages")}}
			limits := corev1.ResourceList{}
			for name, q := range test.limits {
				limits[name] = resource.MustParse(q)
			}
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
				Claims: []corev1.ResourceClaim{{Name: "c"}}, Limits: limits,
			}}}
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{kube.PodsByUID: kube.IndexPodsByUID})
			if err := indexer.Add(pod); err != nil {
				t.Fatal(err)
			}
			a := &agent{pods: kube.PodsFrom(indexer)}
			_, err := a.refuseUnmirrored(t.Context(), claim(test.consumed))
			if (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %v, want %q", err, test.why)
			}
		})
	}
}

func TestStaticCPUManagerIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"policyName":"none"}`:   "",
		`{"policyName":"static"}`: "want",
		`{`:                       "",
	} {
		a := &agent{Options: Options{KubeletRoot: t.TempDir()}}
		if err := os.WriteFile(a.KubeletRoot+"/cpu_manager_state", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := a.refuseStatic(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "set cpuManagerPolicy: none in the kubelet's configuration, remove "+a.KubeletRoot+"/cpu_manager_state") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
