package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
)

// NewDatabase makes an empty database on the server of a DSN, whose user may
// do that, and returns the DSN of the new one.
func NewDatabase(ctx context.Context, dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Buckets hands out one bucket for each S3 server, made when it is first asked
// for. Tests share it, each below a prefix of its own, because SeaweedFS sets
// volumes aside for every bucket.
type Buckets struct {
	// Prefix begins the names.
	Prefix string

	mu struct {
		sync.Mutex
		names map[string]string // by URL
	}
}

// On is the name of the bucket on the server of a URL.
func (b *Buckets) On(ctx context.Context, server string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name, ok := b.mu.names[server]; ok {
		return name, nil
	}
	name := fmt.Sprintf("%s-%d", b.Prefix, time.Now().UnixNano())
	if _, err := NewClient(server).CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name}); err != nil {
		return "", fmt.Errorf("create bucket %s on %s: %w", name, server, err)
	}
	if b.mu.names == nil {
		b.mu.names = map[string]string{}
	}
	b.mu.names[server] = name
	return name, nil
}
