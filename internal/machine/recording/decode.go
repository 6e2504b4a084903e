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
	"unicode/utf8"

	"plumbline.dev/plumbline/internal/machine/systree"
)

// maxBytes is above a recording of thousands of CPUs and functions.
const maxBytes = 256 << 20

// Is says whether a machine file is a recording, not a facts file.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte("plumbline recording ")) }

// Parse reads what Encode writes. It stops at the first error, which has the line.
func Parse(data []byte, filename string) (*Recording, error) {
	d := &parser{file: filename, line: 1, out: &Recording{Tree: systree.New()}}
	if len(data) > maxBytes {
		d.fail("is %d bytes long, more than the %d a recording may have", len(data), maxBytes)
		return nil, d.err
	}
	d.line = 0
	for line := range strings.Lines(string(data)) {
		d.line++
		d.take(line)
		if d.err != nil {
			return nil, d.err
		}
	}
	d.finish()
	if d.line == 0 {
		d.line = 1
		d.fail("is empty, want %q", header)
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.out, nil
}

type parser struct {
	file string
	line int // counted from 1
	err  error
	out  *Recording
	// open is the attribute whose content follows; nil between elements.
	open    *systree.Entry
	hex     bool
	content strings.Builder
	last    string // path of the element before, for the order
}

// fail keeps the first error.
func (d *parser) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s:%d: %s", d.file, d.line, fmt.Sprintf(format, args...))
	}
}

func (d *parser) take(line string) {
	text, ended := strings.CutSuffix(line, "\n")
	switch {
	case !ended:
		d.fail("does not end with a line end: the file is cut off")
	case d.line == 1:
		if text != header {
			d.fail("%.60q: want %q", text, header)
		}
	case strings.HasPrefix(text, "\t"):
		d.takeContent(text[1:])
	default:
		d.finish()
		d.takeElement(text)
	}
}

func (d *parser) takeContent(text string) {
	switch {
	case d.open == nil:
		d.fail("content belongs below a file or hex line")
	case !d.hex && !isLines(text+"\n"):
		d.fail("holds control characters or is not UTF-8")
	case !d.hex:
		d.content.WriteString(text + "\n")
	default:
		bytes, err := hex.DecodeString(text)
		if err != nil || len(bytes) == 0 || len(bytes) > hexBytesPerLine || hex.EncodeToString(bytes) != text {
			d.fail("%.60q: want up to %d bytes as lower-case hexadecimal digits", text, hexBytesPerLine)
			return
		}
		d.content.Write(bytes)
	}
}

// finish adds the attribute whose content is complete.
func (d *parser) finish() {
	if d.open == nil || d.err != nil {
		return
	}
	d.open.Text = d.content.String()
	if d.hex && isLines(d.open.Text) {
		d.fail("%s is lines of text, so want file, not hex", d.open.Path)
		return
	}
	d.put(*d.open)
	d.open = nil
	d.content.Reset()
}

func (d *parser) put(e systree.Entry) {
	if err := d.out.Tree.Add(e); err != nil {
		d.fail("%v", err)
	}
}

func (d *parser) takeElement(text string) {
	words, ok := splitWords(text)
	if !ok {
		d.fail("%.60q: want a keyword and its words, one space between", text)
		return
	}
	keyword, words := words[0], words[1:]
	want := 1
	if keyword == "link" {
		want = 2
	}
	if len(words) != want {
		d.fail("%s has %d words after it, want %d", keyword, len(words), want)
		return
	}
	switch keyword {
	case "name":
		d.setHeader(&d.out.Name, words[0])
	case "arch":
		d.setHeader(&d.out.Arch, words[0])
	case "dir", "file", "hex", "link":
		d.takeEntry(keyword, words)
	default:
		d.fail("%q is no keyword: want name, arch, dir, file, hex or link", keyword)
	}
}

func (d *parser) setHeader(into *string, value string) {
	if *into != "" || d.last != "" || value == "" {
		d.fail("name and arch stand once, not empty, before the elements")
		return
	}
	*into = value
}

func (d *parser) takeEntry(keyword string, words []string) {
	d.last = words[0]
	switch keyword {
	case "dir":
		d.put(systree.Entry{Path: words[0], Mode: fs.ModeDir})
	case "link":
		d.put(systree.Entry{Path: words[0], Mode: fs.ModeSymlink, Text: words[1]})
	default:
		d.open, d.hex = &systree.Entry{Path: words[0]}, keyword == "hex"
	}
}

// splitWords splits a line at single spaces, quoted words kept whole.
func splitWords(line string) ([]string, bool) {
	var words []string
	for {
		var word string
		if strings.HasPrefix(line, `"`) {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, false
			}
			line = line[len(quoted):]
			word, err = strconv.Unquote(quoted)
			if err != nil || quoteWord(word) != quoted || !utf8.ValidString(word) {
				return nil, false
			}
		} else {
			end := strings.IndexByte(line, ' ')
			if end < 0 {
				end = len(line)
			}
			word, line = line[:end], line[end:]
			if quoteWord(word) != word {
				return nil, false
			}
		}
		words = append(words, word)
		if line == "" {
			return words, true
		}
		if line[0] != ' ' {
			return nil, false
		}
		line = line[1:]
	}
}
