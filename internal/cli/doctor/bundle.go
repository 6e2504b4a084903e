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
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
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
func (o *options) collect(ctx context.Context) (files []bundled, names []string, err error) {
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
		names = append(names, n.Node)
	}
	ofCluster, more, err := o.collectCluster(ctx)
	return append(files, ofCluster...), slices.Concat(names, of.Gone, more), err
}

// collectCluster reads what findings of nodes rest on, and the names of nodes that are in
// it.
func (o *options) collectCluster(ctx context.Context) (files []bundled, names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	s, err := o.read(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if !o.allNodes {
		// Reports are listed whatever the labels of their nodes.
		maps.DeleteFunc(s.reports, func(name string, _ *hosts.HostReport) bool {
			return !slices.ContainsFunc(s.nodes, func(n corev1.Node) bool { return n.Name == name })
		})
	}
	list := hosts.HostReportList{Items: []hosts.HostReport{}}
	list.APIVersion, list.Kind = hosts.GroupVersion.String(), "HostReportList"
	for _, name := range slices.Sorted(maps.Keys(s.reports)) {
		list.Items = append(list.Items, *withoutManagers(s.reports[name]))
	}
	reports, err := yaml.Marshal(list)
	if err != nil {
		return nil, nil, fmt.Errorf("HostReports: %w", err)
	}
	installation := &hosts.Installation{}
	var text []byte
	err = c.reports.Get().Resource("installations").Name(hosts.InstallationName).Do(ctx).Into(installation)
	if err == nil {
		installation.APIVersion, installation.Kind = hosts.GroupVersion.String(), "Installation"
		text, err = yaml.Marshal(withoutManagers(installation))
	}
	if err != nil {
		text = fmt.Appendf(nil, "cannot be read: %s\n", cmdutil.OneLine(err))
	}
	for _, n := range installation.Status.NotServing {
		names = append(names, n.Node)
	}
	return []bundled{
		{"hostreports.yaml", "kubectl get hostreports -o yaml", reports},
		{"installation.yaml", "kubectl get installation " + hosts.InstallationName + " -o yaml", text},
	}, names, nil
}

// withoutManagers takes out who set which field, which is most of an object.
func withoutManagers[T metav1.Object](object T) T {
	object.SetManagedFields(nil)
	return object
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
	if text := parameters(root); len(text) > 0 {
		files = append(files, bundled{"parameters.txt", "/sys/module/*/parameters of modules of NICs and GPUs", text})
	}
	// In a container the host has another name than this system.
	hostname, _ := readFile(root, "etc/hostname")
	return files, []string{name, strings.TrimSpace(hostname)}, nil
}

// withParameters are the modules whose parameters a bundle has.
var withParameters = []string{"mlx5_core", "ib_core", "nvidia", "nvidia_peermem", "rdma_rxe"}

// parameters are those of modules that the kernel shows, a line each.
func parameters(root *os.Root) []byte {
	var text bytes.Buffer
	for _, module := range withParameters {
		dir := path.Join("sys/module", module, "parameters")
		entries, err := fs.ReadDir(root.FS(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&text, "%s cannot be read: %v\n", module, err)
		}
		for _, e := range entries {
			value, err := readFile(root, path.Join(dir, e.Name()))
			if err != nil {
				value = "cannot be read: " + err.Error()
			}
			fmt.Fprintf(&text, "%s %s=%s\n", module, e.Name(), printable.Text(strings.TrimSpace(value)))
		}
	}
	return text.Bytes()
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
		fmt.Fprintf(&text, "%-18s %s\n", f.name, f.from)
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
