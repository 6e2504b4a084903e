// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// recorded are the reports that tests of internal/doctor made of their hosts, by name.
func recorded(t testing.TB) map[string]hosts.Report {
	t.Helper()
	text, err := os.ReadFile("../../doctor/testdata/reports.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list hosts.HostReportList
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]hosts.Report{}
	for _, r := range list.Items {
		all[r.Name] = r.Report
	}
	return all
}

// api is an API server with nodes, pods and HostReports.
type api struct {
	nodes   []corev1.Node
	pods    []corev1.Pod
	reports []hosts.HostReport
	// slices are served unless nil, as by an API server without DRA.
	slices []resourceapi.ResourceSlice
	// classes are the names of DeviceClasses.
	classes []string
	// installation is served unless nil.
	installation *hosts.Installation
	// refused answers paths that end so with a status.
	refused map[string]int
	// page is how much a page has at most; 0 is as much as is asked for.
	page int

	mu    sync.Mutex
	asked []string
}

// add adds a node with an agent that is ready, and its report.
func (a *api) add(name string, r hosts.Report) {
	uid := types.UID("uid-" + name)
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Labels: map[string]string{"pool": strings.TrimRight(name, "-0123456789")}}}
	node.Status.NodeInfo.KernelVersion = r.Profile.Kernel
	a.nodes = append(a.nodes, node)
	a.agent(name, "agent", true)
	a.reports = append(a.reports, hosts.HostReport{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}}},
		Report:     *r.DeepCopy(),
	})
}

// without adds a node without a report.
func (a *api) without(name string) {
	a.nodes = append(a.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}})
}

func (a *api) agent(node, component string, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	a.pods = append(a.pods, corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "agent-" + node, Namespace: "plumbline-system", Labels: map[string]string{"app.kubernetes.io/name": "plumbline", "app.kubernetes.io/component": component},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	})
}

// ServeHTTP answers as the API server does: lists by selector and page by page.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	a.mu.Unlock()
	for suffix, code := range a.refused {
		if strings.HasSuffix(r.URL.Path, suffix) {
			refuse(w, code, "")
			return
		}
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	chosen, err2 := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if errors.Join(err, err2) != nil {
		refuse(w, http.StatusBadRequest, "")
		return
	}
	list := func(version, kind string, items any, next string) {
		answer(w, http.StatusOK, map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]string{"continue": next}, "items": items})
	}
	switch r.URL.Path {
	case "/api/v1/nodes":
		items := []corev1.Node{}
		for _, n := range a.nodes {
			if selector.Matches(labels.Set(n.Labels)) {
				items = append(items, n)
			}
		}
		list("v1", "NodeList", items, "")
	case "/api/v1/namespaces/plumbline-system/pods":
		items := []corev1.Pod{}
		for _, pod := range a.pods {
			if selector.Matches(labels.Set(pod.Labels)) && chosen.Matches(fields.Set{"spec.nodeName": pod.Spec.NodeName}) {
				items = append(items, pod)
			}
		}
		list("v1", "PodList", items, "")
	case "/apis/resource.k8s.io/v1/resourceslices":
		if a.slices == nil {
			refuse(w, http.StatusNotFound, "")
			return
		}
		items := []resourceapi.ResourceSlice{}
		for _, s := range a.slices {
			if chosen.Matches(fields.Set{resourceapi.ResourceSliceSelectorDriver: s.Spec.Driver, resourceapi.ResourceSliceSelectorNodeName: ptr.Deref(s.Spec.NodeName, "")}) {
				items = append(items, s)
			}
		}
		list("resource.k8s.io/v1", "ResourceSliceList", items, "")
	case "/apis/plumbline.dev/v1alpha1/hostreports":
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		if a.page > 0 {
			limit = a.page
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		to, next := len(a.reports), ""
		if limit > 0 && from+limit < to {
			to, next = from+limit, strconv.Itoa(from+limit)
		}
		list("plumbline.dev/v1alpha1", "HostReportList", a.reports[from:to], next)
	default:
		a.one(w, path.Dir(r.URL.Path), path.Base(r.URL.Path))
	}
}

func (a *api) one(w http.ResponseWriter, of, name string) {
	for _, n := range a.nodes {
		if of == "/api/v1/nodes" && n.Name == name {
			n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
			answer(w, http.StatusOK, n)
			return
		}
	}
	for _, r := range a.reports {
		if of == "/apis/plumbline.dev/v1alpha1/hostreports" && r.Name == name {
			r.TypeMeta = metav1.TypeMeta{APIVersion: "plumbline.dev/v1alpha1", Kind: "HostReport"}
			answer(w, http.StatusOK, r)
			return
		}
	}
	if of == "/apis/resource.k8s.io/v1/deviceclasses" && slices.Contains(a.classes, name) {
		answer(w, http.StatusOK, &resourceapi.DeviceClass{
			TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "DeviceClass"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		})
		return
	}
	if of == "/apis/plumbline.dev/v1alpha1/installations" && a.installation != nil {
		i := *a.installation
		i.TypeMeta, i.Name = metav1.TypeMeta{APIVersion: "plumbline.dev/v1alpha1", Kind: "Installation"}, name
		answer(w, http.StatusOK, i)
		return
	}
	refuse(w, http.StatusNotFound, name)
}

func refuse(w http.ResponseWriter, code int, name string) {
	reason := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden}[code]
	answer(w, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "refused: " + string(reason), Details: &metav1.StatusDetails{Name: name},
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err) // a type of the API
	}
}

// serve starts the server, and returns the kubeconfig for it.
func (a *api) serve(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters": [{"name": "c", "cluster": {"server": "` + server.URL + `"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
