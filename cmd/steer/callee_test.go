package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// callee is the program `callee ADDR:PORT...`: a server of gRPC on each address, whose health is good until it is killed. It says who it
// is in its trailer.
func callee() {
	failed := make(chan error)
	for _, addr := range os.Args[1:] {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, "callee:", err)
			os.Exit(1)
		}
		s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, q any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := grpc.SetTrailer(ctx, metadata.Pairs("x-callee", addr)); err != nil {
				return nil, err
			}
			return next(ctx, q)
		}))
		healthpb.RegisterHealthServer(s, health.NewServer())
		go func() { failed <- s.Serve(l) }()
	}
	fmt.Fprintln(os.Stderr, "callee:", <-failed)
	os.Exit(1)
}

// call is the program `call ADDR:PORT HOST [FIELD]`: it asks for the health of a server of gRPC through a gateway, and prints the status of
// HTTP and that of gRPC, its message, and who answered. Field is one more of the request, "Name: value".
func call() {
	if err := callOnce(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "call:", err)
		os.Exit(1)
	}
}

func callOnce(addr, host string, fields []string) error {
	q, err := http.NewRequest(http.MethodPost, "http://"+addr+"/grpc.health.v1.Health/Check", strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		return err
	}
	q.Host = host
	q.Header.Set("Content-Type", "application/grpc")
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		q.Header.Set(name, value)
	}
	r, err := (&http.Client{Timeout: 30 * time.Second}).Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	where := r.Trailer // of a call that was answered; the head of one that was not
	if r.Header.Get("Grpc-Status") != "" {
		where = r.Header
	}
	fmt.Println(r.StatusCode, "gRPC", where.Get("Grpc-Status"), where.Get("Grpc-Message"), where.Get("X-Callee"))
	return nil
}
