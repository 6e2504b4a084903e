// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// KubeletConfig are the values in which the lab's kubelets differ.
type KubeletConfig struct {
	// Port is where it serves logs and exec.
	Port int
	// ClientCA is the file whose certificates it trusts.
	ClientCA string
	// ContainerdSocket is the path of containerd's socket.
	ContainerdSocket string
	// PodLogs is the folder of containers' logs.
	PodLogs string
	// DNS is where pods' questions for names go; nowhere where it is empty.
	DNS string
	// OnHost says that the kernel is this host's.
	OnHost bool
}

// Text writes the kubelet's configuration file. Values not named are the
// kubelet's own.
func (c KubeletConfig) Text() ([]byte, error) {
	config := kubelet.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Port:     int32(c.Port),
		Authentication: kubelet.KubeletAuthentication{
			X509:      kubelet.KubeletX509Authentication{ClientCAFile: c.ClientCA},
			Anonymous: kubelet.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
		},
		ContainerRuntimeEndpoint: "unix://" + c.ContainerdSocket,
		PodLogsDir:               c.PodLogs,
		CgroupDriver:             "cgroupfs",
		FailSwapOn:               ptr.To(false),
		// The lab ends programs on purpose, again and again; a pod that waits
		// minutes to be started anew shows nothing.
		CrashLoopBackOff: kubelet.CrashLoopBackOffConfig{MaxContainerRestartPeriod: &metav1.Duration{Duration: time.Second}},
		// Off by default in 1.34, where the line above is refused without it.
		FeatureGates: map[string]bool{"KubeletCrashLoopBackOffMax": true},
		// A pod whose claim could not be prepared, since the agent had been killed
		// or the node was not yet allowed to read it, is asked about again at the
		// next look at all pods (default: a minute to a minute and a half).
		SyncFrequency: metav1.Duration{Duration: 10 * time.Second},
		// Pods must not learn of the host's name servers.
		ResolverConfig: ptr.To(""),
		// An image once removed cannot be pulled again.
		ImageGCHighThresholdPercent: ptr.To[int32](100),
		ImageMinimumGCAge:           metav1.Duration{Duration: 24 * time.Hour},
		EvictionHard: map[string]string{
			"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%",
		},
	}
	if c.OnHost {
		config.FailCgroupV1 = ptr.To(false)
		config.SyncFrequency = metav1.Duration{Duration: 5 * time.Second}
		// Nothing of the host's may be limited for the node's pods.
		config.EnforceNodeAllocatable = []string{"none"}
		config.EvictionHard = map[string]string{"memory.available": "100Mi"}
	}
	if c.DNS != "" {
		config.ClusterDNS, config.ClusterDomain = []string{c.DNS}, ClusterDomain
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("write kubelet configuration: %w", err)
	}
	return text, nil
}
