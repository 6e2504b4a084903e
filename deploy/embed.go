// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"embed"
	"io/fs"
)

// Namespace is where install.yaml puts the agent, and where the documentation
// tells users of the chart to put it.
const Namespace = "plumbline-system"

// AgentServiceAccount is the ServiceAccount of the agent, and the name of its
// DaemonSet.
const AgentServiceAccount = "plumbline-agent"

// ObserverServiceAccount is the ServiceAccount of an agent that serves nothing, and
// the name of its DaemonSet.
const ObserverServiceAccount = "plumbline-observer"

// OperatorServiceAccount is the ServiceAccount of what runs once in a cluster, and
// the name of its Deployment.
const OperatorServiceAccount = "plumbline-operator"

// The prefix "all:" keeps _helpers.tpl, which embed would leave out.
//
//go:embed all:charts/plumbline
var charts embed.FS

//go:embed install.yaml
var install []byte

//go:embed observe.yaml
var observe []byte

//go:embed deviceclasses.yaml
var deviceClasses []byte

//go:embed forbidden.yaml
var forbidden []byte

//go:embed forbidden-operator.yaml
var forbiddenOperator []byte

// Chart returns the files of the Helm chart, Chart.yaml at the root.
func Chart() (fs.FS, error) {
	return fs.Sub(charts, "charts/plumbline")
}

// Install returns the chart's rendering with its default values and a
// namespace of its own: the agent, without any device class.
func Install() []byte {
	return append([]byte(nil), install...)
}

// Observe returns the chart's rendering of agents that serve nothing, with a
// namespace of their own.
func Observe() []byte {
	return append([]byte(nil), observe...)
}

// DeviceClasses returns every device class the chart knows. Create them, do
// not apply them: one that is already there belongs to somebody else.
func DeviceClasses() []byte {
	return append([]byte(nil), deviceClasses...)
}

// Forbidden returns the list of requests that the agent must be refused, for
// package leastprivilege.
func Forbidden() []byte {
	return append([]byte(nil), forbidden...)
}

// ForbiddenOperator is the like for the operator.
func ForbiddenOperator() []byte {
	return append([]byte(nil), forbiddenOperator...)
}
