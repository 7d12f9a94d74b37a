//go:build ignore

// The module of cert-manager has no main package: cmd/controller is a module of its own, which
// nobody publishes. This program starts the same controllers with the same defaults: those
// that issue certificates from a CA or from themselves. It leaves out ACME, Vault and Venafi,
// which need servers elsewhere, Ingresses, and leader election.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := controller.ContextOptions{
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "kube-system", ClusterIssuerAmbientCredentials: true},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}
	flag.StringVar(&o.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `FILE`")
	qps := flag.Float64("kube-api-qps", 20, "requests per second at most, if the API server has no priority and fairness")
	flag.IntVar(&o.KubernetesAPIBurst, "kube-api-burst", 50, "burst of --kube-api-qps")
	flag.BoolVar(&o.EnableOwnerRef, "enable-certificate-owner-ref", false, "a certificate owns its secret")
	workers := flag.Int("concurrent-workers", 5, "workers of each controller")
	address := flag.String("metrics-listen-address", "127.0.0.1:9402", "`ADDRESS` of /metrics")
	flag.Parse()
	o.KubernetesAPIQPS = float32(*qps)

	factory, err := controller.NewContextFactory(ctx, o)
	if err != nil {
		return err
	}
	all, err := factory.Build()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	failed := make(chan error, len(controller.Known()))
	for name, make := range controller.Known() {
		c, err := make(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		running.Go(func() { failed <- c.Run(*workers, ctx) })
	}
	all.Metrics.SetupCertificateCollector(all.SharedInformerFactory.Certmanager().V1().Certificates().Lister())
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	server := all.Metrics.NewServer(listener)
	running.Go(func() { _ = server.Serve(listener) })
	all.KubeSharedInformerFactory.Start(ctx.Done())
	all.SharedInformerFactory.Start(ctx.Done())
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	err = errors.Join(err, server.Close())
	if ctx.Err() != nil { // it was told to stop
		running.Wait()
	}
	return err
}
