// timer plays the container runtime on github.com/containerd/nri/pkg/adaptation and times how long a plugin takes.
//
// It serves commands, one a line on standard input, and answers with JSON, one object a line:
//
//	open                 opens the socket: {"event":"listening"}; no plugin is waited for, so that rounds cost
//	                     what the runtime's own layer costs
//	listen K             opens the socket, likewise; then, once a plugin was synchronised with K running
//	                     containers, {"event":"synchronized", …}
//	round KIND COUNT     COUNT calls of CreateContainer one after the other, -gap apart
//	burst KIND COUNT     COUNT calls that begin together
//
// KIND is "annotated" (asks for a share of a GPU) or "untouched". It ends with its input.
// Plugins of different makes are compared by one timer each, in alternating rounds.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	nrilog "github.com/containerd/nri/pkg/log"
)

// session is the state between commands.
type session struct {
	runtime runtime
	world   world
	gap     time.Duration
	patient time.Duration
	samples bool
	out     *json.Encoder
}

func main() {
	socket := flag.String("socket", "", "path of the NRI socket to open (required)")
	version := flag.String("runtime-version", "2.3.7", "containerd version to claim; below 2.3 no NRI version is told, below 2.2 no newer events are allowed")
	gap := flag.Duration("gap", 2*time.Millisecond, "pause before each call of a round")
	patient := flag.Duration("wait", 20*time.Second, "how long a plugin may take to connect")
	samples := flag.Bool("samples", false, "print every sample beside the percentiles")
	flag.Parse()
	if *socket == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "timer: -socket is required, and there are no other arguments")
		os.Exit(2)
	}
	played, err := parseRelease(*version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "timer: -runtime-version:", err)
		os.Exit(2)
	}
	nrilog.Set(quiet{})
	s := session{
		runtime: runtime{socket: *socket, release: played},
		gap:     *gap, patient: *patient, samples: *samples, out: json.NewEncoder(os.Stdout),
	}
	if err := s.serve(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "timer:", err)
		os.Exit(1)
	}
}

func (s *session) serve(commands io.Reader) error {
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		if err := s.obey(strings.Fields(lines.Text())); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

func (s *session) obey(words []string) error {
	if len(words) == 1 && words[0] == "open" {
		return s.open(0)
	}
	if len(words) == 2 && words[0] == "listen" {
		containers, err := strconv.Atoi(words[1])
		if err != nil || containers < 0 {
			return fmt.Errorf("the number of containers is a whole number from 0")
		}
		return s.listen(containers)
	}
	if len(words) != 3 || words[0] != "round" && words[0] != "burst" {
		return fmt.Errorf("accepted: open, listen K, round KIND COUNT, burst KIND COUNT")
	}
	k := kind(words[1])
	count, err := strconv.Atoi(words[2])
	if k != annotated && k != untouched || err != nil || count < 1 {
		return fmt.Errorf("KIND is annotated or untouched, COUNT a whole number from 1")
	}
	if s.runtime.nri == nil {
		return fmt.Errorf("open or listen first")
	}
	if words[0] == "round" {
		return s.print(s.runtime.round(&s.world, k, count, s.gap))
	}
	return s.print(s.runtime.burst(&s.world, k, count))
}

func (s *session) open(containers int) error {
	if err := s.runtime.listen(containers); err != nil {
		return err
	}
	return s.out.Encode(listening{"listening"})
}

func (s *session) listen(containers int) error {
	if err := s.open(containers); err != nil {
		return err
	}
	select {
	case sync := <-s.runtime.synchronized:
		if sync.err != nil {
			return sync.err
		}
		s.runtime.settle()
		return s.out.Encode(synchronized{
			"synchronized", containers, sync.updates, microseconds(sync.sinceRegistration), microseconds(sync.call),
		})
	case <-time.After(s.patient):
		return fmt.Errorf("no plugin connected within %s", s.patient)
	}
}

func (s *session) print(r report) error {
	if !s.samples {
		r.Samples = nil
	}
	return s.out.Encode(r)
}
