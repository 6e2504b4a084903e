// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package svg draws a topoview.Topology as one SVG picture: sockets side by
// side, NUMA nodes as panels with their cores, PCIe roots as trunks, switches
// as boxes around the GPUs and NICs that share them, and a colour for each
// claim.
//
// A picture is built of boxes. The size of each is computed before anything is drawn, so
// nothing overlaps whatever the machine is:
//
//	page ─► socket ─► node ─► cores
//	                    └───► flow of roots ─► box of a switch ─► cards
//
// The result stands alone: no script, no font, no link. Text is measured wider
// than any common font sets it and cut where it would leave its box; the whole
// text is in the element's title. Every device is one element with the
// attribute data-device.
package svg
