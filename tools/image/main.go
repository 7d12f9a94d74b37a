// Command image makes an OCI image of a program and what stands beside it, without a container engine: a layout
// that any registry's client pushes, and a tarball that any engine loads. It reads back
// what it has written. Of the same program it makes the same image, digest and all.
// With -index it makes one index with an image for each architecture, and with -push it
// uploads such an index.
//
//	go run . -binary ../../bin/windtunnel -out ../../bin/image
//	go run . -index ../../dist/build/linux_amd64 -index ../../dist/build/linux_arm64 -out ../../dist/oci.tar
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	binary := flag.String("binary", "bin/windtunnel", "the program, a `file`")
	beside := flag.String("beside", "bin/kube-plane", "executable of the control plane, a `file`")
	out := flag.String("out", "bin/image", "`folder` of the layout, which is replaced; the tarball is beside it, with .tar behind its name; with -index and -push the archive of an index")
	tag := flag.String("tag", "windtunnel:latest", "`NAME:TAG` of the image in the tarball")
	created := flag.String("created", "1970-01-01T00:00:00Z", "`TIME` of the images of an index")
	push := flag.String("push", "", "upload the index of -out as `NAME:TAG`; REGISTRY_USER and REGISTRY_PASSWORD are the credentials")
	var folders []string
	flag.Func("index", "add the executables in `FOLDER` to an index; repeatable", func(f string) error { folders = append(folders, f); return nil })
	flag.Parse()
	var digest v1.Hash
	at, err := time.Parse(time.RFC3339, *created)
	switch {
	case err != nil:
	case *push != "":
		digest, err = pushIndex(*out, *push, &authn.Basic{Username: os.Getenv("REGISTRY_USER"), Password: os.Getenv("REGISTRY_PASSWORD")})
	case len(folders) > 0:
		digest, err = makeIndex(folders, *out, *tag, at)
	default:
		if digest, err = makeImage(executables{*binary, *beside}, *out, *tag); err == nil {
			*out += " and " + *out + ".tar"
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s: %s\n", *out, digest)
}
