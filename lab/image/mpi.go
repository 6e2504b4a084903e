// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/ociimage"
)

const (
	// MPI is Open MPI with an OpenSSH server, and a program that adds up.
	MPI = "plumbline.dev/lab/openmpi:latest"
	// CoreDNS answers pods' questions for names.
	CoreDNS = "plumbline.dev/lab/coredns:latest"
	// Training has PyTorch for CPUs, beside what plumbline bench runs.
	Training = "plumbline.dev/lab/training:latest"
	// MPIOperator is called as the operator's own manifests call it, so that they are
	// applied as they are.
	MPIOperator = "docker.io/mpioperator/mpi-operator:0.7.0"
)

// Programs of the images.
const (
	CoreDNSProgram     = "/coredns"
	MPIOperatorProgram = "/opt/mpi-operator"
	// Allreduce is the program of MPI that adds up (lab/build).
	Allreduce = "/usr/local/bin/allreduce"
	// Train is the training of the examples.
	Train = "/usr/local/bin/train.py"
)

// ServerImages are the images of CoreDNS and of the MPI operator, by the paths of the
// programs; a program that is empty has none.
func ServerImages(coreDNS, operator string) map[string]ociimage.Image {
	images := map[string]ociimage.Image{}
	for _, s := range []struct{ name, at, program string }{
		{CoreDNS, CoreDNSProgram, coreDNS}, {MPIOperator, MPIOperatorProgram, operator},
	} {
		if s.program != "" {
			images[s.name] = ociimage.Image{
				Layer: ociimage.Layer{
					Programs: map[string]string{s.at: s.program},
					Dirs:     map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
				},
				Architecture: Architecture, Command: []string{s.at},
			}
		}
	}
	return images
}

// sshd lets the MPI operator's launcher in: the host's key and the user's are the one of
// the job's Secret, whose files every user may read by the folder's links.
const sshd = `Port 22
HostKey /root/.ssh/id_rsa
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
`

// ssh asks nobody whether it knows a worker, which has a new key for each job.
const ssh = `Host *
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
`

// ofNoUse are folders of packages that no program reads.
var ofNoUse = []string{
	"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl",
	"usr/lib/systemd", "lib/systemd", "usr/share/bash-completion",
}

// MPIImage returns an image of Debian's Open MPI and OpenSSH, unpacked below root with what
// else is there, and of the program that adds up. What their packages' scripts would have made
// at installation is made here.
func MPIImage(reference, root, allreduce string) (map[string]ociimage.Image, error) {
	layer := ociimage.Layer{
		Programs: map[string]string{},
		Links: map[string]string{
			// Debian's alternatives.
			"/usr/bin/mpirun": "mpirun.openmpi", "/usr/bin/mpiexec": "mpiexec.openmpi", "/bin/sh": "bash",
			// Where the image that the document names has Open MPI.
			"/opt/openmpi": "../usr",
		},
		Files: map[string]string{
			"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
			"/etc/group":  "root:x:0:\nnogroup:x:65534:\n",
		},
		Dirs: map[string]os.FileMode{"/root": 0o700, "/run/sshd": 0o755, "/tmp": 0o777 | os.ModeSticky},
	}
	if err := addTree(&layer, root); err != nil {
		return nil, fmt.Errorf("pack %s: %w", root, err)
	}
	layer.Programs[Allreduce] = allreduce
	for at, text := range map[string]string{"/etc/ssh/sshd_config": sshd, "/etc/ssh/ssh_config": ssh} {
		delete(layer.Programs, at)
		layer.Files[at] = text
	}
	return map[string]ociimage.Image{reference: {Layer: layer, Architecture: Architecture, Command: []string{"/bin/bash"}}}, nil
}

// TrainingImage is MPIImage's of packages with PyTorch, and of the program that trains.
func TrainingImage(root, allreduce, train string) (map[string]ociimage.Image, error) {
	images, err := MPIImage(Training, root, allreduce)
	if err != nil {
		return nil, err
	}
	layer := images[Training].Layer
	layer.Programs[Train] = train
	// Debian's alternatives, which its scripts would have chosen.
	for _, library := range []string{"libblas.so.3", "liblapack.so.3"} {
		layer.Links["/usr/lib/x86_64-linux-gnu/"+library] = "openblas-pthread/" + library
	}
	layer.Links["/usr/lib/x86_64-linux-gnu/libopenblas.so.0"] = "openblas-pthread/libopenblas.so.0"
	maps.DeleteFunc(layer.Programs, func(at, _ string) bool {
		return slices.ContainsFunc(ofNoUseInTraining, func(dir string) bool { return strings.HasPrefix(at, dir) })
	})
	return images, nil
}

// ofNoUseInTraining are folders of packages that PyTorch's depend on, and that no rank reads.
var ofNoUseInTraining = []string{"/usr/include/", "/usr/lib/libtorch-test/", "/usr/share/gdal/", "/usr/share/proj/", "/usr/share/mime/", "/usr/share/fonts/"}

// addTree adds files and links below root that are there already for no one else.
func addTree(layer *ociimage.Layer, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		at := "/" + below
		switch {
		case d.IsDir() && slices.Contains(ofNoUse, below):
			return fs.SkipDir
		case d.Type().IsRegular():
			layer.Programs[at] = path
		case d.Type()&fs.ModeSymlink != 0 && layer.Links[at] == "":
			layer.Links[at], err = os.Readlink(path)
		}
		return err
	})
}

// MPIContent is what decides MPIImage beside the packages and the program, for who keeps it.
func MPIContent() []string { return append([]string{sshd, ssh}, strings.Join(ofNoUse, " ")) }

// TrainingContent is likewise of TrainingImage.
func TrainingContent() []string { return append(MPIContent(), ofNoUseInTraining...) }
