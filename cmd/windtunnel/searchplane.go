package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
)

// maxNamespace bounds what is read of an answer.
const maxNamespace = 1 << 20

// searchPlane says what the runs of a search are flown on. The error says why a
// cluster does not tell.
func searchPlane(ctx context.Context, kubeconfig string) (capacity.Plane, error) {
	if kubeconfig == "" {
		return capacity.Plane{Kind: capacity.OwnPlane}, nil
	}
	e, err := endpoint.FromKubeconfig(kubeconfig, "")
	if err != nil {
		return capacity.Plane{}, err
	}
	identity, err := clusterIdentity(ctx, e)
	if err != nil {
		return capacity.Plane{}, fmt.Errorf("which cluster %s is: %w", e.Server(), err)
	}
	return capacity.Plane{Kind: capacity.Cluster, Identity: identity}, nil
}

// clusterIdentity is the UID of the namespace kube-system, which lives as long as
// the cluster does. Where it may not be read the server's address takes its place.
func clusterIdentity(ctx context.Context, e endpoint.Endpoint) (string, error) {
	client, base, err := e.Client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("api/v1/namespaces/kube-system").String(), nil)
	if err != nil {
		return "", fmt.Errorf("ask for kube-system: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask for kube-system: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden, http.StatusNotFound:
		return e.Server(), nil
	default:
		return "", fmt.Errorf("ask for kube-system: %s", answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxNamespace))
	if err != nil {
		return "", fmt.Errorf("ask for kube-system: %w", err)
	}
	about, err := object.ReadMetadata(body)
	if err != nil {
		return "", fmt.Errorf("ask for kube-system: %w", err)
	}
	if about.UID == "" {
		return e.Server(), nil
	}
	return about.UID, nil
}
