package main

import "go.etcd.io/etcd/server/v3/etcdmain"

// runEtcd runs etcd with a command line; on an error etcd ends the process itself.
func runEtcd(args []string) int {
	etcdmain.Main(args)
	return 0
}
