// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config is what a run needs of a cluster on which plumbline is not installed.
type Config struct {
	harness.Cluster
	Kubectl scenario.Kubectl
	Dynamic dynamic.Interface
	// Listen listens on an address in the node's network.
	Listen func(network, address string) (net.Listener, error)
	// Dial connects to an address there.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ImagesOf are the names that a node gives the images of an archive.
	ImagesOf func(ctx context.Context, archive string) ([]string, error)
	// StartPrometheus runs a Prometheus with its configuration and the files that this
	// names, which listens on PrometheusAddress there; StopPrometheus ends it.
	StartPrometheus   func(ctx context.Context, files map[string][]byte) error
	StopPrometheus    func(ctx context.Context) error
	PrometheusAddress string
	// Checkout is the source whose pages are followed.
	Checkout string
	// Environment has commands find helm and the cluster.
	Environment []string
	// Values is the file of the chart's values that the lab takes.
	Values string
	// Folder is where a release may be written, instead of out.
	Folder string
}

// patience is how long anything may take but making a release, forgetting how long the
// kubelet may take to forget a driver, and settling the time in which nothing changes in a
// cluster that has started.
const (
	patience   = 2 * time.Minute
	forgetting = 90 * time.Second
	settling   = 5 * time.Second
	poll       = 500 * time.Millisecond
)

// namespace is that of the pod, which is called as its claim.
const (
	namespace = "plumblab-install"
	podName   = "trainer"
)

// installation is what Kubernetes knows plumbline by.
const installation = "installation/plumbline"

// rollback brings back an installation that refused to go, as docs/install.md says.
const rollback = "helm rollback plumbline 1 -n " + deploy.Namespace

type run struct {
	Config
	report harness.Report
	// registry is the address of the run's own, on the host's and on the node's
	// loopback.
	registry string
	// image is the name by which agents ask for theirs.
	image string
	// watcher is the Prometheus, while it runs.
	watcher *watcher
}

// Run goes through all of it, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "install", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.all))
}

func (r *run) all(ctx context.Context) error {
	before, err := r.settled(ctx)
	if err != nil {
		return err
	}
	closeRegistry, err := r.serveRegistry()
	if err != nil {
		return err
	}
	defer closeRegistry()
	for _, step := range []func(context.Context) error{r.install, r.bundle, r.pod, r.asTenant, r.scrape, r.breakHost, r.stopScraping, r.follow, r.stay} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return r.leave(ctx, before)
}

// serveRegistry is a registry in memory, at one port of the host's loopback, where images
// are pushed to, and of the node's, which pulls.
func (r *run) serveRegistry() (closeIt func(), err error) {
	here, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.registry = here.Addr().String()
	there, err := r.Listen("tcp4", r.registry)
	if err != nil {
		_ = here.Close() // the reason is told
		return nil, fmt.Errorf("listen on the node: %w", err)
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	for _, listener := range []net.Listener{here, there} {
		go func() { _ = server.Serve(listener) }()
	}
	return func() { _ = server.Close() }, nil
}

// install types the commands of README.
func (r *run) install(ctx context.Context) error {
	list, err := commands(filepath.Join(r.Checkout, "README.md"), "## Install it on a cluster")
	if err != nil {
		return err
	}
	for _, command := range list {
		if _, err := r.typed(ctx, command); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := r.waitReady(ctx); err != nil {
		return err
	}
	r.report.Finding(len(list) == 3, "installed", "by %d commands; it serves %.0f s after the last", len(list), time.Since(began).Seconds())
	return r.pulled(ctx)
}

// pulled checks that agents run the image that was pushed: they ask for it by its digest in
// the run's registry. A node that ran it before says so by the name it had then.
func (r *run) pulled(ctx context.Context) error {
	pods, err := r.Client.CoreV1().Pods(deploy.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=agent"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			digest, ours := strings.CutPrefix(c.Image, r.registry+"/plumbline@")
			runs := slices.ContainsFunc(pods.Items[i].Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
				return s.Name == c.Name && strings.HasSuffix(s.ImageID, "/plumbline@"+digest)
			})
			r.image = c.Image
			r.report.Finding(ours && strings.HasPrefix(digest, "sha256:") && runs, "agent's image", "%s", c.Image)
		}
	}
	r.report.Finding(len(pods.Items) == 1, "agents", "%d on one node", len(pods.Items))
	return nil
}

// pod gets a NIC for a pod by nothing but what was installed.
func (r *run) pod(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: podName, Namespace: namespace}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{harness.RequestNIC()}
	if _, err := r.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod := r.Pod(namespace, podName, "sleep", "3600")
	name := podName
	harness.AddClaim(pod, corev1.PodResourceClaim{Name: "nic", ResourceClaimName: &name})
	if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := harness.WaitForReady(ctx, r.Client, namespace, podName, poll, patience); err != nil {
		return err
	}
	links, err := r.links(ctx)
	r.report.Finding(len(links) == 2, "the pod's NIC", "%s beside its own", strings.Join(links, ", "))
	return err
}

// links are the pod's, without the loopback.
func (r *run) links(ctx context.Context) ([]string, error) {
	out, err := r.Kubectl.Shell(ctx, namespace, podName, "ls /sys/class/net")
	if err != nil {
		return nil, err
	}
	var links []string
	for _, name := range strings.Fields(out) {
		if name != "lo" {
			links = append(links, name)
		}
	}
	return links, nil
}

// stay tries to uninstall while a pod holds a NIC: that is refused, and everything goes
// on as before.
func (r *run) stay(ctx context.Context) error {
	list, err := r.leaving()
	if err != nil {
		return err
	}
	out, err := r.typed(ctx, list[0])
	told := fmt.Sprintf("claim %s/%s of pod %s: %s ", namespace, podName, podName, slicecodec.DriverNet)
	r.report.Finding(err != nil && strings.Contains(out, told), "uninstalling beside a pod", "refused, and says %q", lineWith(out, told))
	if _, err := r.typed(ctx, rollback); err != nil {
		return err
	}
	links, err := r.links(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(len(links) == 2, "the pod", "has its NIC all the same: %s", strings.Join(links, ", "))
	return r.waitReady(ctx)
}

// waitReady waits as the chart's notes say.
func (r *run) waitReady(ctx context.Context) error {
	for _, what := range []string{"create", "condition=Ready"} {
		if _, err := r.Kubectl.Run(ctx, "wait", "--for="+what, "--timeout=2m", installation); err != nil {
			return err
		}
	}
	return nil
}

// lineWith is the line of a text that has a part in it.
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// leaving are the commands that uninstall.
func (r *run) leaving() ([]string, error) {
	page := filepath.Join(r.Checkout, "docs", "install.md")
	list, err := commands(page, "## Leaving")
	if err == nil && len(list) != 3 {
		err = fmt.Errorf("read %s: %q: want three commands of leaving", page, list)
	}
	return list, err
}

// leave uninstalls when the pod has ended, and compares with before.
func (r *run) leave(ctx context.Context, before []string) error {
	list, err := r.leaving()
	if err != nil {
		return err
	}
	if err := harness.DeleteNamespace(ctx, r.Client, namespace, patience); err != nil {
		return err
	}
	const check = "plumbline uninstall --check"
	out, err := r.typed(ctx, check)
	r.report.Finding(err != nil && strings.Contains(out, "daemonsets.apps"), check, "before it, %s", lineWith(out, "left."))
	for _, command := range list {
		// kubectl is the cluster's own, which is no program of that name.
		if arguments, isKubectl := strings.CutPrefix(command, "kubectl "); isKubectl {
			fmt.Fprintf(r.Out, "$ %s\n", command)
			_, err = r.Kubectl.Run(ctx, strings.Fields(arguments)...)
		} else {
			_, err = r.typed(ctx, command)
		}
		if err != nil {
			return err
		}
	}
	var left []string
	began := time.Now()
	err = harness.WaitFor(ctx, poll, forgetting, func() (bool, error) {
		after, err := r.state(ctx)
		left = difference(before, after)
		return len(left) == 0, err
	})
	r.report.Finding(len(left) == 0, "node and API server", "as before, %.0f s later: %d files, settings and objects", time.Since(began).Seconds(), len(before))
	r.report.Wrong(left...)
	if len(left) > 0 {
		return nil // told
	}
	if err != nil {
		return err
	}
	out, err = r.typed(ctx, check)
	r.report.Finding(err == nil, check, "after it, %s", strings.TrimSpace(out))
	return nil
}

// cleanUp removes what a run left that was killed: the installation as well.
func (r *run) cleanUp(ctx context.Context) error {
	if err := harness.DeleteNamespace(ctx, r.Client, namespace, patience); err != nil {
		return err
	}
	if _, err := r.Shell(ctx, mendHost); err != nil {
		return err
	}
	if err := r.stopScraping(ctx); err != nil {
		return err
	}
	if _, err := r.Kubectl.Run(ctx, "get", "crd", "hostpolicies.plumbline.dev"); err == nil {
		if _, err := r.Kubectl.Run(ctx, "delete", "hostpolicy", policyName, "--ignore-not-found"); err != nil {
			return err
		}
	}
	list, err := r.leaving()
	if err != nil {
		return err
	}
	installed, err := r.installed(ctx)
	if err != nil {
		return err
	}
	if installed {
		if _, err := r.typed(ctx, list[0]); err != nil {
			return err
		}
	}
	for _, command := range list[1:] {
		arguments := append(strings.Fields(command)[1:], "--ignore-not-found")
		if _, err := r.Kubectl.Run(ctx, arguments...); err != nil {
			return err
		}
	}
	return os.RemoveAll(r.Folder)
}

// installed says whether Helm knows of an installation, finished or not.
func (r *run) installed(ctx context.Context) (bool, error) {
	secrets, err := r.Client.CoreV1().Secrets(deploy.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=plumbline"})
	if err != nil {
		return false, err
	}
	return len(secrets.Items) > 0, nil
}
