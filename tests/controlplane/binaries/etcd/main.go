// Command etcd is the etcd server of the pinned release: etcd's own main package is not importable from its module.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
