// peer is the yardstick: a plain Go plugin on the stub of github.com/containerd/nri that injects what fractiond injects.
// It runs until the runtime closes the connection.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
)

func main() {
	socket := flag.String("socket", "/var/run/nri/nri.sock", "NRI socket of the runtime")
	name := flag.String("name", "go-peer", "plugin name to register")
	index := flag.String("index", "10", "plugin index to register, two digits")
	pipeDir := flag.String("pipe-dir", "/run/nvidia-mps", "MPS pipe directory on the host")
	validate := flag.Bool("validate", false, "also validate the final adjustment; the runtime needs NRI 0.10 or newer")
	flag.Parse()

	var handlers any = newPlugin(*pipeDir)
	if *validate {
		handlers = validatingPlugin{newPlugin(*pipeDir)}
	}
	if err := run(handlers, *socket, *name, *index); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(handlers any, socket, name, index string) error {
	peer, err := stub.New(handlers, stub.WithPluginName(name), stub.WithPluginIdx(index), stub.WithSocketPath(socket))
	if err != nil {
		return err
	}
	if err := peer.Run(context.Background()); !errors.Is(err, ttrpc.ErrServerClosed) {
		return err
	}
	return nil
}
