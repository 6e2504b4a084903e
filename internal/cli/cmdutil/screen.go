// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Escape sequences of a terminal (man 4 console_codes; xterm's private modes). Pictures
// are drawn on its second screen, over each other and without clearing it, so that
// nothing flickers and nothing of the user's is wiped away.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the second screen, no cursor, long lines are cut
	leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	// endLine and endPicture clear what an older picture has left.
	endLine    = "\x1b[K\n"
	endPicture = "\x1b[J"
)

// screen prints one picture after the other: on a terminal in place of the last,
// else below it.
type screen struct {
	out io.Writer
	// rows is how many lines the terminal has; nil where there is none.
	rows func() int
	last []byte
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			s.rows = func() int { return rowsOf(f) }
		}
	}
	return s
}

// rowsOf is how many lines a terminal says it has; 0 where it does not say.
func rowsOf(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}

// show prints a picture that differs from the last. between stands between two
// of them where they follow each other.
func (s *screen) show(picture []byte, between string) error {
	if s.last != nil && bytes.Equal(picture, s.last) {
		return nil
	}
	text := picture
	switch {
	case s.rows != nil:
		text = s.drawn(picture)
	case s.last != nil:
		text = append([]byte(between), picture...)
	}
	s.last = picture
	return s.write(text)
}

// drawn is a picture over the last one, cut to what the terminal has room for.
func (s *screen) drawn(picture []byte) []byte {
	var b bytes.Buffer
	if s.last == nil {
		b.WriteString(enter)
	}
	b.WriteString(home)
	lines := bytes.Split(bytes.TrimSuffix(picture, []byte("\n")), []byte("\n"))
	// The cursor stands below the last line.
	if rows := s.rows(); rows > 2 && len(lines) >= rows {
		more := len(lines) - (rows - 2)
		lines = append(lines[:rows-2:rows-2], fmt.Appendf(nil, "… %d more lines", more))
	}
	for _, line := range lines {
		b.Write(line)
		b.WriteString(endLine)
	}
	b.WriteString(endPicture)
	return b.Bytes()
}

// close gives the terminal back as it was, with the whole of the last picture.
func (s *screen) close() error {
	if s.rows == nil || s.last == nil {
		return nil
	}
	return s.write(append([]byte(leave), s.last...))
}

func (s *screen) write(text []byte) error {
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// ShowAll shows what comes until the channel closes. render makes the picture.
func ShowAll[T any](ctx context.Context, out io.Writer, format string, views <-chan T, render func(io.Writer, T) error) (err error) {
	s := newScreen(out)
	defer func() {
		if closeErr := s.close(); err == nil {
			err = closeErr
		}
	}()
	between := map[string]string{"text": "\n", "wide": "\n", "yaml": "---\n"}[format]
	for {
		select {
		case v, open := <-views:
			if !open {
				return nil
			}
			var picture bytes.Buffer
			if err := render(&picture, v); err != nil {
				return err
			}
			if err := s.show(picture.Bytes(), between); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
