// Command useragent prints the User-Agent of a client of the Kubernetes API.
package main

import (
	"fmt"

	"k8s.io/client-go/rest"
)

func main() { fmt.Println(rest.DefaultKubernetesUserAgent()) }
