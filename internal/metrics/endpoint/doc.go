// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoint serves the agent's figures on the network, for those who
// may read them: HTTPS, and the API server is asked who a bearer token belongs
// to and whether that account may GET the path, as the kubelet's own endpoint
// does. Who gives an address for plain HTTP has everybody who reaches it read them.
// Nothing of it runs unless an address was given.
//
// The agent lives in the host's network, where everybody who reaches the node
// reaches the port: connections and questions to the API server are bounded
// before anybody is known.
package endpoint
