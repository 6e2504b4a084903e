// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/version"
)

// bundled is a file of a bundle.
type bundled struct {
	name string
	// from says where it comes from, for the list of files.
	from string
	text []byte
}

// writeBundle writes the archive of --bundle: what this command says of a host or of nodes,
// for people and for programs, and of a host what it was said by.
func (o *options) writeBundle(ctx context.Context, out io.Writer) error {
	if _, err := os.Lstat(o.bundle); err == nil {
		return fmt.Errorf("--bundle %s: is there already: name another file", o.bundle)
	}
	files, names, err := o.collect(ctx)
	if err != nil {
		return err
	}
	files = append([]bundled{{name: "MANIFEST.txt", text: manifest(files, !o.addresses)}}, files...)
	if !o.addresses {
		hide := newStandIns(names)
		for i := range files {
			files[i].text = hide.in(files[i].text)
		}
	}
	archive, err := pack(files)
	if err != nil {
		return fmt.Errorf("--bundle %s: %w", o.bundle, err)
	}
	if err := atomicfile.Write(o.bundle, 0o600, bytes.NewReader(archive)); err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s: %s; MANIFEST.txt says what of\n", o.bundle, plural.Count(len(files), "file", "files"))
	return err
}

// collect reads all files of a bundle, and the names of hosts that are in them.
func (o *options) collect(ctx context.Context) (files []bundled, hosts []string, err error) {
	said := *o
	said.bundle = ""
	for _, format := range []struct{ output, file string }{{"text", "doctor.txt"}, {"json", "doctor.json"}} {
		var text bytes.Buffer
		said.output, said.all = format.output, true
		if err := said.run(ctx, &text); err != nil && !errors.Is(err, cmdutil.ErrReported) {
			return nil, nil, err
		}
		files = append(files, bundled{format.file, "plumbline doctor " + said.arguments(), text.Bytes()})
	}
	files = append(files, bundled{"version.txt", "plumbline version", fmt.Appendf(nil, "plumbline %s\n%s %s/%s\n", version.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)})
	if o.node == "" && o.labels == "" && !o.allNodes {
		ofHost, names, err := o.collectHost(ctx)
		return append(files, ofHost...), names, err
	}
	var of Cluster
	if err := json.Unmarshal(files[1].text, &of); err != nil {
		return nil, nil, fmt.Errorf("read what was found on nodes: %w", err)
	}
	for _, n := range of.Nodes {
		hosts = append(hosts, n.Node)
	}
	return files, append(hosts, of.Gone...), nil
}

// arguments are those that chose what was looked at.
func (o *options) arguments() string {
	words := []string{"--all -o " + o.output}
	switch {
	case o.node != "":
		words = append(words, "--node …")
	case o.labels != "":
		words = append(words, "-l "+o.labels)
	case o.allNodes:
		words = append(words, "-A")
	}
	return strings.Join(words, " ")
}

// collectHost reads what findings of this host rest on, as far as it holds no secret: not
// the kernel's command line, which may, nor any environment.
func (o *options) collectHost(ctx context.Context) (files []bundled, names []string, err error) {
	name, host, err := o.examine(ctx)
	if err != nil {
		return nil, nil, err
	}
	profile, err := doctor.EncodeProfile(name, doctor.Profile(host))
	if err != nil {
		return nil, nil, err
	}
	hardware, _, err := machine.Record(ctx, os.DirFS(filepath.Join(o.root, "sys")), machine.RecordOptions{Name: name, Private: o.addresses})
	if err != nil {
		return nil, nil, fmt.Errorf("record the hardware of %s: %w", name, err)
	}
	files = []bundled{
		{"profile.yaml", "plumbline doctor --learn", profile},
		{"machine.txt", "plumbline machine record, which plumbline topo --machine reads", hardware},
	}
	// Links of the host's own file system must not lead to another's.
	root, err := os.OpenRoot(o.root)
	if err != nil {
		return nil, nil, fmt.Errorf("--root: %w", err)
	}
	defer func() { _ = root.Close() }() // only read
	for _, f := range []struct {
		name, path string
		keep       func(string) string
	}{
		{"os-release.txt", "etc/os-release", nil}, {"kernel.txt", "proc/version", withoutBuilder},
		{"nvidia.txt", "proc/driver/nvidia/version", nil}, {"modules.txt", "proc/modules", withoutAddresses},
	} {
		text, err := readFile(root, f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			text = "cannot be read: " + err.Error() + "\n"
		case f.keep != nil:
			text = f.keep(text)
		}
		files = append(files, bundled{f.name, "/" + f.path, []byte(text)})
	}
	// In a container the host has another name than this system.
	hostname, _ := readFile(root, "etc/hostname")
	return files, []string{name, strings.TrimSpace(hostname)}, nil
}

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

func readFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(text), err
}

// withoutBuilder is /proc/version without who built the kernel, where, and by what.
func withoutBuilder(text string) string {
	kernel, _, _ := strings.Cut(text, " (")
	return strings.TrimSpace(kernel) + "\n"
}

// withoutAddresses are the lines of /proc/modules without where modules lie in memory.
func withoutAddresses(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		lines.WriteString(strings.Join(words[:min(len(words), 5)], " ") + "\n")
	}
	return lines.String()
}

func manifest(files []bundled, hidden bool) []byte {
	var text strings.Builder
	for _, f := range files {
		fmt.Fprintf(&text, "%-16s %s\n", f.name, f.from)
	}
	if hidden {
		text.WriteString("\nAddresses and names of hosts are stand-ins, the same for the same throughout;\n--with-addresses leaves them as they are.\n")
	}
	return []byte(text.String())
}

// pack writes an archive that is the same for the same files: when it was made stands
// nowhere in it.
func pack(files []bundled) ([]byte, error) {
	var archive bytes.Buffer
	packed := gzip.NewWriter(&archive)
	w := tar.NewWriter(packed)
	for _, f := range files {
		header := &tar.Header{Name: "plumbline/" + f.name, Mode: 0o644, Size: int64(len(f.text)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := errors.Join(w.Close(), packed.Close())
	return archive.Bytes(), err
}
