// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agenttest

import "plumbline.dev/plumbline/internal/driver"

// NoNamespaces are the namespaces of a node without pods.
type NoNamespaces struct{}

// Of is empty.
func (NoNamespaces) Of(driver.Record) string { return "" }

// Drop has nothing to let go.
func (NoNamespaces) Drop(driver.Record) {}
