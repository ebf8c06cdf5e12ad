// Command reference writes the reference pages of the documentation: every field of the kinds, every option, and the
// reasons of Events and conditions:
//
//	go run ./hack/reference -out docs/reference bin/supercargo bin/autoscaler …
//
// It reads CustomResourceDefinitions, the help of the programs, and the comments of api/v1alpha1. It must run in the
// root of the repository.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "", "`folder` to write to")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(folder string, programs []string) error {
	kinds, err := kinds("manifests/crd")
	if err != nil {
		return err
	}
	options, err := options(programs)
	if err != nil {
		return err
	}
	events, conditions, err := reasons("api/v1alpha1")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"kinds": kinds, "options": options, "events": events, "conditions": conditions} {
		if err := os.WriteFile(filepath.Join(folder, name+".md"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
