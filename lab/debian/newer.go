// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// newerRelease has what the lab needs and an older release has not: QEMU 8 and, in
// its backports, a kernel whose soft RoCE knows network namespaces. Backports have a
// lower priority than the release itself, so that only what is named by a version
// comes from there.
const newerRelease = "trixie"

// newerSources writes apt's sources of the newer release: the same mirror that the
// host's sources name, and the keys that the host's own release, verified, says are
// Debian's, since a host that was not updated for long does not know the newer one's.
func (a *Archive) newerSources(ctx context.Context, file string) error {
	keys, err := a.keyring(ctx)
	if err != nil {
		return err
	}
	mirror, err := a.mirror(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s %s-backports\nComponents: main\nSigned-By: %s\n",
		mirror, newerRelease, newerRelease, keys)
	return os.WriteFile(file, []byte(text), 0o644)
}

// keyring returns the file of Debian's archive keys, as the host's release has it.
func (a *Archive) keyring(ctx context.Context) (string, error) {
	root, err := a.Fetch(ctx, Set{
		Name: "archive-keyring", Title: "Debian's archive keys", Alone: true,
		Packages: []string{"debian-archive-keyring"},
	})
	if err != nil {
		return "", err
	}
	return match(root, "usr/share/keyrings/debian-archive-keyring.gpg", "usr/share/keyrings/debian-archive-keyring.pgp")
}

// mirror returns where the host takes Debian itself from.
func (a *Archive) mirror(ctx context.Context) (string, error) {
	updateErr := a.host.update(ctx)
	// One line for each list, as its release's file says: updates come with the same
	// label, security updates with another one.
	targets, err := a.host.run(ctx, "", "apt-get", "indextargets",
		"--format", "$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return "", errors.Join(err, updateErr)
	}
	for line := range strings.Lines(targets) {
		if uri, ok := strings.CutPrefix(strings.TrimSpace(line), "Debian Debian main "); ok {
			return uri, nil
		}
	}
	return "", errors.Join(errors.New("find the host's mirror of Debian: apt's sources name none with the component main"), updateErr)
}

// packages are those that a set asks for, by their real names.
func (l *lists) packages(ctx context.Context, s Set) ([]string, error) {
	if s.Kernel == "" {
		return l.concrete(ctx, s.Packages)
	}
	known, err := l.run(ctx, "", "apt-cache", "pkgnames", s.Packages[0]+"-")
	if err != nil {
		return nil, fmt.Errorf("list the kernels of %s: %w", newerRelease, err)
	}
	version, err := newestKernel(known, s.Packages[0], s.Kernel)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range s.Packages {
		names = append(names, name+"-"+version)
	}
	return names, nil
}

// kernelVersion is such as 7.3.4+deb13-amd64: no flavour for clouds or real time.
var kernelVersion = regexp.MustCompile(`^[0-9.]+(\+[a-z0-9]+)?-amd64$`)

// newestKernel chooses among package names such as linux-modules-7.3.4+deb13-amd64 and
// returns the part after the family.
func newestKernel(names, family, oldest string) (string, error) {
	var newest string
	for name := range strings.FieldsSeq(names) {
		version, ok := strings.CutPrefix(name, family+"-")
		if ok && kernelVersion.MatchString(version) && (newest == "" || compareKernels(version, newest) > 0) {
			newest = version
		}
	}
	if newest == "" || compareKernels(newest, oldest) < 0 {
		return "", fmt.Errorf("find a kernel of Linux %s or newer in %s and its backports: the newest is %s",
			oldest, newerRelease, cmp.Or(newest, "none"))
	}
	return newest, nil
}

// compareKernels compares the numbers before the distribution's own.
func compareKernels(a, b string) int { return slices.Compare(kernelNumbers(a), kernelNumbers(b)) }

func kernelNumbers(version string) []int {
	var numbers []int
	for part := range strings.SplitSeq(upstream.FindString(version), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return numbers
		}
		numbers = append(numbers, n)
	}
	return numbers
}

var upstream = regexp.MustCompile(`^[0-9.]+`)
