// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/host/kmsg"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// trouble is a kind of message by which the kernel, or a driver, complains.
type trouble struct {
	matches *regexp.Regexp
	// but are those among them that are nobody's fault.
	but *regexp.Regexp
	fix string
}

var troubles = []trouble{
	{
		// Xids 13, 31 and 43 are what a program did, and 45 follows from others (NVIDIA's
		// list of Xid errors).
		regexp.MustCompile(`^NVRM: Xid \(`), regexp.MustCompile(`^NVRM: Xid \([^)]*\): (13|31|43|45),`),
		"look the number up in NVIDIA's list of Xid errors; reset the GPU, or reseat or replace it",
	},
	{
		// drivers/net/ethernet/mellanox/mlx5/core/health.c
		regexp.MustCompile(`^mlx5_core .*(Fatal error \d+ detected|health compromised|Health issue observed)`), nil,
		"reset the NIC (devlink dev reload), or replace it; ask its vendor with the lines around this one",
	},
	{
		regexp.MustCompile(`^mlx5_core .*[Ii]nsufficient power on the PCIe slot`), nil,
		"put the NIC into a slot that gives it enough power, or connect its own supply",
	},
	{
		regexp.MustCompile(`^mlx5_core .*Port module event`), regexp.MustCompile(`Cable plugged`),
		"look at cable and optics of the port",
	},
	{
		// drivers/pci/pcie/aer.c; those that were corrected cost nothing but time.
		regexp.MustCompile(`(AER|PCIe Bus Error): .*Uncorrect`), nil,
		"reseat the card; try another slot or riser; pcie-errors counts them",
	},
	{
		regexp.MustCompile(`(?i)peer.?mem.*invalid context`), nil,
		"install nvidia_peermem of the driver that is loaded, or use DMA-BUF",
	},
	{
		regexp.MustCompile(`disagrees about version of symbol`), nil,
		"install modules of one build: all of DOCA-OFED's, or none",
	},
}

// of says whether a message is one of these.
func (t trouble) of(text string) bool {
	return t.matches.MatchString(text) && (t.but == nil || !t.but.MatchString(text))
}

// maxLog bounds what is read of the log; a kernel keeps 256 KiB unless it was told or has
// very many processors.
const maxLog = 4 << 20

// maxMessage bounds what is said of a message, in bytes.
const maxMessage = 300

// kernelLog tells of messages that mean trouble with GPUs, NICs or their modules, by the
// device that they are about: how many there are, and the last one.
func kernelLog(h Host, r *report) {
	const source = "/dev/kmsg"
	if h.Log == nil {
		return
	}
	log, err := h.Log()
	if err != nil {
		r.unknown("", source, err)
		return
	}
	defer func() { _ = log.Close() }() // only read
	limited := &io.LimitedReader{R: log, N: maxLog}
	found, messages, err := h.troublesIn(limited)
	for _, f := range found {
		r.wrong(f.subject, source, f.String(), "none", f.kind.fix)
	}
	switch {
	case limited.N <= 0:
		r.unknown("", source, fmt.Errorf("the log is longer than %d MiB, and the rest was not read", maxLog>>20))
	case err != nil:
		r.unknown("", source, err)
	case len(found) == 0:
		r.ok("", source, fmt.Sprintf("nothing of GPUs, NICs and their modules in %s", plural.Count(messages, "message", "messages")))
	}
}

// complaints are messages of one kind about one device.
type complaints struct {
	kind    *trouble
	subject string
	count   int
	at      time.Duration
	last    string
}

func (c complaints) String() string {
	text := printable.Text(c.last)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return fmt.Sprintf("%s, the last %s after the start of the kernel: %s", plural.Count(c.count, "message", "messages"), c.at.Round(time.Second), text)
}

// troublesIn are the complaints of a log in the order in which they began, and how many messages
// it has. What programs wrote into it is none.
func (h Host) troublesIn(log io.Reader) (all []complaints, messages int, err error) {
	for record, err := range kmsg.Records(log) {
		if err != nil {
			return all, messages, err
		}
		messages++
		if record.Facility != 0 {
			continue
		}
		for i := range troubles {
			kind := &troubles[i]
			if !kind.of(record.Text) {
				continue
			}
			subject := h.deviceIn(record.Text)
			at := slices.IndexFunc(all, func(c complaints) bool { return c.kind == kind && c.subject == subject })
			if at < 0 {
				at = len(all)
				all = append(all, complaints{kind: kind, subject: subject})
			}
			all[at].count, all[at].at, all[at].last = all[at].count+1, record.At, record.Text
			break
		}
	}
	return all, messages, nil
}

// addressIn matches a PCI address, which NVIDIA's driver writes without the function.
var addressIn = regexp.MustCompile(`\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(\.[0-7])?\b`)

// deviceIn names the device that a message is about: the last one in it that there is, as a
// root port tells of errors of what is below it. "" where there is none.
func (h Host) deviceIn(text string) string {
	for _, word := range slices.Backward(addressIn.FindAllString(text, -1)) {
		if !strings.Contains(word, ".") {
			word += ".0"
		}
		if a, err := model.ParsePCIAddress(word); err == nil && h.Machine.Function(a) != nil {
			return h.subject(a)
		}
	}
	return ""
}
