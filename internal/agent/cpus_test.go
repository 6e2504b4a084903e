// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestParseCPUMode(t *testing.T) {
	for words, want := range map[[2]string]slicecodec.CPUMode{
		{"grouped", "numanode"}:    slicecodec.PerNUMANode,
		{"grouped", "socket"}:      slicecodec.PerSocket,
		{"grouped", "machine"}:     slicecodec.WholeMachine,
		{"individual", "numanode"}: slicecodec.SingleCPUs,
	} {
		if got, err := ParseCPUMode(words[0], words[1]); err != nil || got != want {
			t.Errorf("%v: got %q, %v, want %q", words, got, err, want)
		}
	}
	for words, want := range map[[2]string]string{
		{"single", "numanode"}: `--cpu-device-mode="single": want grouped or individual`,
		{"grouped", "die"}:     `--group-by="die": want numanode, socket, machine`,
	} {
		if _, err := ParseCPUMode(words[0], words[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", words, err, want)
		}
	}
}
