package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// The one identity that every S3 server here knows; it may do everything. Any
// other access key, or another secret, is answered 403.
const (
	AccessKey = "deltadtestkey"
	SecretKey = "deltadtestsecret"
)

// readyBucket is created by the readiness probe and stays, empty.
const readyBucket = "ready"

// S3 is a running S3 server. Its region is us-east-1; buckets are addressed by
// path.
type S3 struct {
	Name string // "versitygw" or "seaweedfs"
	URL  string // http://127.0.0.1:port

	proc    *proc
	timeout time.Duration // until ready
}

// StartVersitygw starts the versitygw binary bin on an empty directory. Its
// objects are plain files there.
func StartVersitygw(ctx context.Context, bin string) (*S3, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, fmt.Errorf("find versitygw: %w", err)
	}
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	dir, err := makeDirs("deltad-versitygw-", "data", "iam")
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	s := &S3{Name: "versitygw", URL: "http://" + addr, timeout: 20 * time.Second}
	s.proc = newProc(s.Name, dir, func() *exec.Cmd {
		c := exec.Command(bin, "--port", addr,
			"--keep-alive", // off by default, at half the speed
			"--quiet",
			// Without accounts an unknown access key would be answered 404.
			"--iam-dir", filepath.Join(dir, "iam"),
			"posix", filepath.Join(dir, "data"))
		c.Dir = dir
		c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
		c.SysProcAttr = ProcAttr(syscall.SIGKILL, nil)
		return c
	})
	return s.started(ctx)
}

// StartSeaweedFS starts the weed binary bin as master, volume server, filer and
// S3 gateway in one process. The first PUT succeeds after about ten seconds.
func StartSeaweedFS(ctx context.Context, bin string) (*S3, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, fmt.Errorf("find weed: %w", err)
	}
	ports, err := freePorts(ctx, 8)
	if err != nil {
		return nil, err
	}
	dir, err := makeDirs("deltad-seaweedfs-", "data")
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "s3.json")
	if err := writeSeaweedIdentity(conf); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &S3{Name: "seaweedfs", URL: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), timeout: 2 * time.Minute}
	args := []string{
		"-logtostderr=true", "server", "-dir=" + filepath.Join(dir, "data"),
		"-ip=127.0.0.1", "-ip.bind=127.0.0.1",
		"-master.telemetry=false", // reports usage by default
		// Volumes are files that grow as they are written. Counted by the free
		// space of the disk, which is the default, they run out long before
		// the disk is full: every bucket takes some for itself.
		"-master.volumeSizeLimitMB=256", "-volume.max=100000", "-volume.minFreeSpace=64MiB",
		// One master: nobody to wait for at the election.
		"-master.electionTimeout=1s", "-master.heartbeatInterval=100ms",
		"-volume.preStopSeconds=0",
		"-filer", "-filer.localSocket=" + filepath.Join(dir, "filer.sock"),
		"-s3", "-s3.config=" + conf, "-s3.localSocket=" + filepath.Join(dir, "s3.sock"),
		"-s3.autoCreateBucket=false", // a missing bucket must be an error, as on S3
		"-s3.port.iceberg=0", "-s3.port.lance=0",
	}
	var strays []string
	for i, role := range []string{"s3", "filer", "master", "volume"} {
		port, grpc := ports[2*i], ports[2*i+1]
		args = append(args, fmt.Sprintf("-%s.port=%d", role, port), fmt.Sprintf("-%s.port.grpc=%d", role, grpc))
		// SeaweedFS offers each gRPC port as a socket under this fixed name
		// too, and leaves it behind.
		strays = append(strays, fmt.Sprintf("/tmp/seaweedfs-%s-grpc-%d.sock", role, grpc))
	}
	s.proc = newProc(s.Name, dir, func() *exec.Cmd {
		c := exec.Command(bin, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "WEED_MASTER_VOLUME_GROWTH_COPY_1=2")
		c.SysProcAttr = ProcAttr(syscall.SIGKILL, nil)
		return c
	})
	s.proc.strays = strays
	return s.started(ctx)
}

// Client returns an SDK client for the server that sends every request once,
// so that what the server answers is what the test sees.
func (s *S3) Client() *s3.Client { return NewClient(s.URL) }

// NewClient is Client for a server known by its address.
func NewClient(url string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint:     aws.String(url),
		Region:           "us-east-1",
		UsePathStyle:     true,
		RetryMaxAttempts: 1,
		Credentials:      credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, ""),
	})
}

// Kill crashes the server.
func (s *S3) Kill() { s.proc.end(syscall.SIGKILL, 0) }

// Restart starts the server after Kill and waits until it accepts a PUT.
func (s *S3) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("%s have passed", s.timeout))
	defer cancel()
	if err := s.proc.start(); err != nil {
		return err
	}
	return s.proc.ready(ctx, s.put)
}

// Stop ends the server and removes its data. It is not asked politely: nothing
// is kept, and SeaweedFS takes half a minute to say goodbye.
func (s *S3) Stop() error {
	s.Kill()
	return s.proc.cleanup()
}

// LogTail returns about the last n bytes of the server's log.
func (s *S3) LogTail(n int64) string { return s.proc.logTail(n) }

// started is the end of each Start function.
func (s *S3) started(ctx context.Context) (*S3, error) {
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// put is the readiness probe: an object written and deleted.
func (s *S3) put(ctx context.Context) error {
	c := s.Client()
	bucket, key := aws.String(readyBucket), aws.String("probe")
	_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
	var owned *types.BucketAlreadyOwnedByYou
	var exists *types.BucketAlreadyExists
	if err != nil && !errors.As(err, &owned) && !errors.As(err, &exists) {
		return fmt.Errorf("create bucket %s: %w", readyBucket, err)
	}
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("ready")}); err != nil {
		return fmt.Errorf("put %s/%s: %w", readyBucket, *key, err)
	}
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key}); err != nil {
		return fmt.Errorf("delete %s/%s: %w", readyBucket, *key, err)
	}
	return nil
}

// writeSeaweedIdentity writes the account file of SeaweedFS's S3 gateway.
func writeSeaweedIdentity(path string) error {
	type credential struct {
		AccessKey string `json:"accessKey"`
		SecretKey string `json:"secretKey"`
	}
	type identity struct {
		Name        string       `json:"name"`
		Credentials []credential `json:"credentials"`
		Actions     []string     `json:"actions"`
	}
	b, err := json.Marshal(map[string][]identity{"identities": {{
		Name:        "deltad",
		Credentials: []credential{{AccessKey, SecretKey}},
		Actions:     []string{"Admin", "Read", "Write", "List", "Tagging"},
	}}})
	if err != nil {
		return fmt.Errorf("encode seaweedfs identities: %w", err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("write seaweedfs identities: %w", err)
	}
	return nil
}

// makeDirs creates a temporary directory with the given directories in it.
func makeDirs(pattern string, names ...string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", fmt.Errorf("create directory for a server: %w", err)
	}
	for _, n := range names {
		if err := os.Mkdir(filepath.Join(dir, n), 0o755); err != nil {
			return "", errors.Join(fmt.Errorf("create directory for a server: %w", err), os.RemoveAll(dir))
		}
	}
	return dir, nil
}
