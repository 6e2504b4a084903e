// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// talk answers as QEMU does, with an event before each answer.
func talk(t *testing.T, socket string, answers map[string]string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Write([]byte(`{"QMP": {"version": {}, "capabilities": []}}` + "\n"))
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			for command, answer := range answers {
				if strings.Contains(lines.Text(), `"`+command+`"`) {
					_, _ = conn.Write([]byte(`{"event": "SHUTDOWN"}` + "\n" + answer + "\n"))
				}
			}
		}
	}()
}

func TestQuit(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "qmp.sock")
	talk(t, socket, map[string]string{"qmp_capabilities": `{"return": {}}`, "quit": `{"return": {}}`})
	if err := Quit(t.Context(), dial(t, socket)); err != nil {
		t.Fatal(err)
	}
}

func TestQuitRefused(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "qmp.sock")
	talk(t, socket, map[string]string{"qmp_capabilities": `{"error": {"class": "GenericError", "desc": "not today"}}`})
	if err := Quit(t.Context(), dial(t, socket)); err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("got %v", err)
	}
}

func dial(t *testing.T, socket string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
