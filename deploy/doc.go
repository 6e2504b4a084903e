// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy holds what is installed on a cluster: the Helm chart, its
// golden renderings for people without Helm, and the list of requests that the
// agent must be refused. It embeds these files and does nothing with them;
// package render turns the chart into manifests.
package deploy
