// Command image makes an OCI image of a program and what stands beside it, without a container engine: a layout
// that any registry's client pushes, and a tarball that any engine loads. It reads back
// what it has written. Of the same program it makes the same image, digest and all.
//
//	go run . -binary ../../bin/windtunnel -out ../../bin/image
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	binary := flag.String("binary", "bin/windtunnel", "the program, a `file`")
	beside := flag.String("beside", "bin/kube-plane", "executable of the control plane, a `file`")
	out := flag.String("out", "bin/image", "`folder` of the layout, which is replaced; the tarball is beside it, with .tar behind its name")
	tag := flag.String("tag", "windtunnel:latest", "`NAME:TAG` of the image in the tarball")
	flag.Parse()
	digest, err := makeImage(executables{*binary, *beside}, *out, *tag)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s and %s.tar: %s\n", *out, *out, digest)
}
