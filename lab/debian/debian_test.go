// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"strings"
	"testing"
)

func TestNewEnough(t *testing.T) {
	tests := map[string]bool{
		"QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg-7)\nCopyright": true,
		"QEMU emulator version 10.0.2":                                  true,
		"QEMU emulator version 7.1.0":                                   false,
		"QEMU emulator version 6.2.0":                                   false,
		"QEMU emulator version":                                         false,
		"QEMU emulator version x.y":                                     false,
		"":                                                              false,
	}
	for text, want := range tests {
		if got := newEnough(text, 7, 2); got != want {
			t.Errorf("newEnough(%q) = %v", text, got)
		}
	}
	if newEnough("QEMU emulator version 7.2.17", 8, 0) {
		t.Error("7.2.17 passes for 8.0")
	}
}

func TestStandsFor(t *testing.T) {
	tests := []struct{ name, depends, want string }{
		{"linux-image-amd64", "linux-image-amd64\n  Depends: linux-image-6.1.0-41-amd64\n", "linux-image-6.1.0-41-amd64"},
		{"linux-headers-amd64", "linux-headers-amd64\n  Depends: linux-headers-6.1.0-41-amd64\n", "linux-headers-6.1.0-41-amd64"},
		{"linux-headers-6.1.0-41-amd64", "x\n  Depends: linux-headers-6.1.0-41-common\n  Depends: linux-kbuild-6.1\n", "linux-headers-6.1.0-41-amd64"},
		{"linux-image-6.1.0-41-amd64", "x\n  Depends: kmod\n", "linux-image-6.1.0-41-amd64"},
	}
	for _, tt := range tests {
		if got := standsFor(tt.name, tt.depends); got != tt.want {
			t.Errorf("standsFor(%s) = %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestConfigDropsHooks(t *testing.T) {
	dump := "APT \"\";\nAPT::Architecture \"amd64\";\nAPT::Update::Post-Invoke:: \"rm -rf /\";\n" +
		"Acquire::http::Proxy \"proxy\";\nDir::Cache \"var/cache/apt\";\n"
	got := config(dump, "/c/apt", "")
	for _, want := range []string{"Acquire::http::Proxy \"proxy\";", "APT::Architecture \"amd64\";", "Dir::Cache \"/c/apt/cache\";"} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("config lacks %s:\n%s", want, got)
		}
	}
	for _, not := range []string{"Post-Invoke", "var/cache/apt\""} {
		if strings.Contains(got, not) {
			t.Errorf("config keeps %s:\n%s", not, got)
		}
	}
}

func TestConfigNamesSources(t *testing.T) {
	got := config("", "/c/apt", "/c/apt/lab.sources")
	for _, want := range []string{"Dir::Etc::SourceList \"/c/apt/lab.sources\";", "Dir::Etc::SourceParts \"/dev/null\";"} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("config lacks %s:\n%s", want, got)
		}
	}
	if got := config("", "/c/apt", ""); strings.Contains(got, "SourceList") {
		t.Errorf("config replaces the host's sources:\n%s", got)
	}
}

func TestNewestKernel(t *testing.T) {
	names := "linux-binary-7.1.13+deb13-amd64\nlinux-binary-7.3.4+deb13-cloud-amd64\nlinux-binary-7.2.9+deb13-amd64\n" +
		"linux-binary-7.2.12+deb13-amd64\nlinux-binary-7.3.4+deb13-rt-amd64\nlinux-binary-unsigned-7.3.4+deb13-amd64\nlinux-modules-7.4.1-amd64\n"
	got, err := newestKernel(names, "linux-binary", "7.1")
	if want := "7.2.12+deb13-amd64"; got != want || err != nil {
		t.Errorf("newest kernel %q, %v, want %s", got, err, want)
	}
	for _, names := range []string{"", names} {
		if got, err := newestKernel(names, "linux-binary", "7.10"); err == nil || !strings.Contains(err.Error(), "7.10") {
			t.Errorf("of %q: %q, %v, want an error that names 7.10", names, got, err)
		}
	}
}
