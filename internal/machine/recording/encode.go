// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"plumbline.dev/plumbline/internal/machine/systree"
)

// header is the first line of a recording. The number is the format's
// version; a reader refuses one it does not know.
const header = "plumbline recording 1"

// Recording is a machine as plumbline machine record wrote it.
type Recording struct {
	// Name is what the person called it; empty for a bare recording.
	Name string
	// Arch is uname's, such as x86_64; empty when unknown.
	Arch string
	Tree *systree.Tree
}

// hexBytesPerLine makes a 64-byte configuration header four lines, as lspci -x.
const hexBytesPerLine = 16

// Encode writes the recording as text: the header, then one element a line,
// by path, content indented by a tab below it:
//
//	plumbline recording 1
//	name NAME
//	arch x86_64
//	dir PATH
//	file PATH
//		each line of the attribute
//	hex PATH
//		bytes that are no lines of text, 16 a line
//	link PATH TARGET
//
// A name or path with spaces or quotes is quoted as in Go.
func (r *Recording) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(header + "\n")
	for _, word := range []struct{ key, value string }{{"name", r.Name}, {"arch", r.Arch}} {
		if word.value != "" {
			fmt.Fprintf(&b, "%s %s\n", word.key, quoteWord(word.value))
		}
	}
	for _, e := range r.Tree.Entries() {
		encodeEntry(&b, e)
	}
	return b.Bytes()
}

func encodeEntry(b *bytes.Buffer, e systree.Entry) {
	name := quoteWord(e.Path)
	switch {
	case e.Mode == fs.ModeDir:
		fmt.Fprintf(b, "dir %s\n", name)
	case e.Mode == fs.ModeSymlink:
		fmt.Fprintf(b, "link %s %s\n", name, quoteWord(e.Text))
	case isLines(e.Text):
		fmt.Fprintf(b, "file %s\n", name)
		for line := range strings.Lines(e.Text) {
			b.WriteString("\t" + line)
		}
	default:
		fmt.Fprintf(b, "hex %s\n", name)
		for rest := e.Text; rest != ""; {
			n := min(len(rest), hexBytesPerLine)
			b.WriteString("\t" + hex.EncodeToString([]byte(rest[:n])) + "\n")
			rest = rest[n:]
		}
	}
}

// isLines says whether content is whole lines of readable text.
func isLines(s string) bool {
	return (s == "" || strings.HasSuffix(s, "\n")) && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) })
}

func quoteWord(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' })
	if plain {
		return s
	}
	return strconv.Quote(s)
}
