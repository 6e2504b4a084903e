// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command release makes the image, or all of a release, from the checkout it is run
// in: `make image`, `make release`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"plumbline.dev/plumbline/internal/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "Usage: release [flags] image|all\n\n")
		flags.PrintDefaults()
	}
	out := flags.String("out", "out", "`folder` to write into")
	push := flags.String("push", "", "push the image to `HOST/NAME`, with the version as its tag")
	repository := flags.String("repository", release.Repository, "where clusters pull the image, as `HOST/NAME`")
	url := flags.String("download-url", "https://plumbline.dev/releases", "the `URL` below which folders of releases lie")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp
	}
	source, err := release.Open(ctx, ".")
	if err != nil {
		return err
	}
	switch flags.Arg(0) {
	case "image":
		return writeImage(ctx, source, filepath.Join(*out, "image"), *repository, *push)
	case "all":
		return writeAll(ctx, source, filepath.Join(*out, "release"), *repository, *url)
	}
	flags.Usage()
	return flag.ErrHelp
}

func writeImage(ctx context.Context, source release.Source, out, repository, push string) error {
	began := time.Now()
	fmt.Printf("image of plumbline %s\n", source.Version)
	work, err := os.MkdirTemp("", "plumbline-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // only ours
	image, err := source.Image(ctx, work, release.Architectures...)
	if err != nil {
		return err
	}
	if push != "" {
		repository = push
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	reference := repository + ":" + source.Version
	if _, err := image.Write(out, reference, "plumbline"); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if push != "" {
		if err := image.Push(ctx, reference); err != nil {
			return err
		}
		fmt.Printf("pushed  %s\n", reference)
	}
	fmt.Printf("wrote   %s  (linux/amd64, linux/arm64; %s)\ndigest  %s\n", out, time.Since(began).Round(time.Second), digest)
	return nil
}

func writeAll(ctx context.Context, source release.Source, out, repository, url string) error {
	began := time.Now()
	fmt.Printf("release of plumbline %s\n", source.Version)
	digest, err := source.Write(ctx, out, release.Options{
		Repository: repository, DownloadURL: url + "/v" + source.Version,
		OnStep: func(name string) { fmt.Printf("  %4.0fs  %s\n", time.Since(began).Seconds(), name) },
	})
	if err != nil {
		return err
	}
	fmt.Printf("wrote   %s  (%s)\ndigest  %s\n", out, time.Since(began).Round(time.Second), digest)
	return nil
}
