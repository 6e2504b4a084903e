// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/printable"
	"plumbline.dev/plumbline/internal/suggest"
)

// ProfileKind is the kind of files with a profile.
const ProfileKind = "HostProfile"

// profileFile is such a file.
type profileFile struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Profile    hosts.HostProfile `json:"profile"`
}

// EncodeProfile writes the profile of a good host as a file that Expect's comes from. It
// names every setting, and those that the host does not have with "": a parameter of the
// kernel that only the other host has is a difference, too.
func EncodeProfile(from string, p hosts.HostProfile) ([]byte, error) {
	p = *p.DeepCopy()
	if p.Settings == nil {
		p.Settings = map[string]string{}
	}
	for name, m := range hostFields {
		if _, there := p.Settings[name]; !there && m.without != "" {
			p.Settings[name] = ""
		}
	}
	for _, word := range cmdlineWords {
		if _, there := p.Settings[settingCmdline+word]; !there {
			p.Settings[settingCmdline+word] = ""
		}
	}
	text, err := yaml.Marshal(profileFile{APIVersion: hosts.GroupVersion.String(), Kind: ProfileKind, Profile: p})
	if err != nil {
		return nil, fmt.Errorf("profile of %s: %w", from, err)
	}
	header := fmt.Sprintf(`# The profile of %s, as plumbline doctor --learn found it. doctor --expect wants a
# host to be so: what is taken out of this file may be anything, "" is not set.
`, printable.Text(from))
	return append([]byte(header), text...), nil
}

// maxProfileFile is longer than any profile that a report can hold.
const maxProfileFile = 1 << 20

// DecodeProfile reads such a file. Fields and settings that there are not are refused by
// name: misspelt ones would expect nothing.
func DecodeProfile(r io.Reader) (hosts.HostProfile, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxProfileFile+1))
	if err != nil {
		return hosts.HostProfile{}, err
	}
	if len(text) > maxProfileFile {
		return hosts.HostProfile{}, fmt.Errorf("longer than %d bytes: no profile", maxProfileFile)
	}
	text, err = oneDocument(text)
	if err != nil {
		return hosts.HostProfile{}, err
	}
	object, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return hosts.HostProfile{}, err
	}
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(object, &header); err != nil {
		return hosts.HostProfile{}, err
	}
	if header.APIVersion != hosts.GroupVersion.String() || header.Kind != ProfileKind {
		return hosts.HostProfile{}, fmt.Errorf("apiVersion %q, kind %q: want apiVersion %s, kind %s, as plumbline doctor --learn writes them",
			header.APIVersion, header.Kind, hosts.GroupVersion, ProfileKind)
	}
	var file profileFile
	wrong, err := json.UnmarshalStrict(object, &file)
	if err := errors.Join(append(wrong, err)...); err != nil {
		return hosts.HostProfile{}, err
	}
	return file.Profile, checkProfile(file.Profile)
}

// oneDocument refuses all but one YAML document: what stands in a second would expect
// nothing.
func oneDocument(text []byte) ([]byte, error) {
	var found []byte
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, err
		}
		if content == nil {
			continue // comments alone
		}
		if found != nil {
			return nil, errors.New("several YAML documents: want one profile")
		}
		found = document
	}
}

// Kinds of devices in a profile.
const (
	kindGPU = "gpu"
	kindNIC = "nic"
)

var deviceID = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)

// checkProfile refuses what no host's profile says.
func checkProfile(p hosts.HostProfile) error {
	errs := checkNames("profile.settings", "", p.Settings)
	for i, d := range p.Devices {
		at := fmt.Sprintf("profile.devices[%d]", i)
		if d.Kind != kindGPU && d.Kind != kindNIC {
			errs = append(errs, fmt.Errorf("%s.kind %q: want %s or %s", at, d.Kind, kindGPU, kindNIC))
		}
		if !deviceID.MatchString(d.ID) {
			errs = append(errs, fmt.Errorf("%s.id %q: want PCI vendor and device, such as 15b3:1021", at, d.ID))
		}
		if d.Count < 1 {
			errs = append(errs, fmt.Errorf("%s.count %d: want 1 or more", at, d.Count))
		}
		errs = append(errs, checkNames(at+".settings", deviceOf(d), d.Settings)...)
	}
	return errors.Join(errs...)
}

// checkNames refuses settings that there are not. The kernel and the count have fields
// of their own.
func checkNames(at, device string, settings map[string]string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if _, known := meaningOf(field{device, name}); known && name != fieldKernel && name != fieldCount {
			continue
		}
		err := fmt.Errorf("%s: unknown setting %q", at, name)
		if meant := suggest.Closest(name, settingNames(device != "")); meant != "" {
			err = fmt.Errorf("%w: did you mean %q?", err, meant)
		}
		errs = append(errs, err)
	}
	return errs
}

func settingNames(ofDevice bool) []string {
	if ofDevice {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(deviceFields)), func(name string) bool { return name == fieldCount })
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(hostFields)), func(name string) bool { return name == fieldKernel })
	names = append(names, "hugepages-2048kB", "hugepages-1048576kB")
	for _, word := range cmdlineWords {
		names = append(names, settingCmdline+word)
	}
	return names
}
