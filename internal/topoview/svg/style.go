// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"strconv"
	"strings"
)

// palette are the claims' colours: apart from each other for most forms of
// colour blindness, dark enough for white letters. A claim is marked with its
// letter as well.
var palette = []struct{ strong, tint string }{
	{"#d1495b", "#fbe9ec"},
	{"#6a4c93", "#f0eaf7"},
	{"#b7791f", "#fbf1de"},
	{"#00798c", "#e0f1f4"},
	{"#a23b72", "#f8e7f1"},
	{"#4c6b22", "#ecf2e2"},
	{"#3d5a9e", "#e7ecf7"},
	{"#8a5a36", "#f5ece4"},
}

const style = `
.pl{font-family:Inter,"Helvetica Neue",Helvetica,Arial,system-ui,sans-serif;fill:#1c2733}
.pl-t0{font-size:34px;font-weight:600;letter-spacing:-.5px}
.pl-t1{font-size:15px;fill:#5b6875}
.pl-t2{font-size:14px;font-weight:600;fill:#44515e}
.pl-t3{font-size:16px;font-weight:600}
.pl-t4{font-size:12px;fill:#5b6875}
.pl-t5{font-size:13px;font-weight:600}
.pl-t6{font-size:11px;font-weight:400;fill:#5b6875}
.pl-c{font-size:10px;fill:#7b8794}
.pl-m1,.pl-m2{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.pl-m1{font-size:12px;font-weight:600}
.pl-m2{font-size:10px;fill:#5b6875}
.pl-b{font-size:10px;font-weight:700;fill:#fff}
.pl-on{fill:#fff}
.pl-paper{fill:#faf9f6}
.pl-socket{fill:#eff2f4;stroke:#dde3e8}
.pl-node{fill:#fff;stroke:#d3dae1}
.pl-loose{fill:#fff;stroke:#b9c2cb;stroke-dasharray:5 4}
.pl-switch{fill:#f3f5f8;stroke:#d3dae1}
.pl-root{fill:#33414f}
.pl-rootless{fill:#fff;stroke:#33414f;stroke-width:1.5;stroke-dasharray:4 3}
.pl-trunk{fill:none;stroke:#33414f;stroke-width:3;stroke-linecap:round}
.pl-twig{fill:none;stroke:#8794a1;stroke-width:2;stroke-linecap:round}
.pl-dash{stroke-dasharray:1 6}
.pl-slit{fill:none;stroke:#8794a1;stroke-width:6}
.pl-slit2{fill:none;stroke:#faf9f6;stroke-width:2}
.pl-chip{fill:#fff;stroke:#8794a1;stroke-width:1.5}
.pl-core{fill:#cfd8e1}
.pl-reserved{fill:#6b7885}
.pl-card{fill:#fff;stroke:#ccd4dc}
.pl-stranded{fill:#fff8ec;stroke:#b7791f;stroke-width:1.5;stroke-dasharray:5 3}
.pl-warn{fill:#96600f}
.pl-gpu{fill:#2f7d4f}
.pl-nic{fill:#2a66a8}
.pl-other{fill:#8b96a1}
.pl-off{opacity:.55}
.pl-rule{stroke:#d3dae1;fill:none}
.pl-bob{fill:none;stroke:#1c2733;stroke-width:1.4;stroke-linejoin:round}
.pl-ink{fill:#1c2733}
.pl-lead{fill:#1c2733}
`

// styleSheet is the style with the palette's classes.
func styleSheet() string {
	var b strings.Builder
	b.WriteString(style)
	for i, p := range palette {
		n := strconv.Itoa(i)
		b.WriteString(".pl-k" + n + "{fill:" + p.strong + "}")
		b.WriteString(".pl-h" + n + "{fill:" + p.tint + ";stroke:" + p.strong + ";stroke-width:1.5}\n")
	}
	return b.String()
}
