// Package s3 is a store on an S3 bucket, Amazon's or any compatible server's.
//
// It stands between deltad and three things: the protocol's ambiguities, the SDK's silent habits, and servers that lie.
//
//  1. Requests are bounded: connecting, waiting for headers, and silence of the connection in either direction each have a timeout,
//     attempts are few with jittered backoff and a retry quota per client, pages and error bodies have a maximum size. Bodies have no
//     total timeout, so large ones pass as long as they move; the caller's context bounds everything together.
//  2. A put with Unretried is one request. Any other that has a condition, or goes up in parts, carries a token of its own in the
//     object's metadata, so that an attempt that is refused because an earlier attempt of the same put had succeeded is recognised as
//     the success it was.
//  3. A body is delivered whole or fails: one that breaks is resumed with a range on the same ETag, a few times; whole-object checksums
//     are verified where the server sends them.
//  4. A page of a listing is checked before it counts: its root element, its token, its order, and that it answers the question asked.
//     Keys travel URL-encoded and are decoded exactly once.
//  5. Large bodies go up in parts; the condition holds where the upload is completed (a server that ignores it there is guarded by a
//     look beforehand, which is no lock). An upload that does not complete is aborted on a context of its own. A process that dies
//     leaves parts behind: give the bucket a lifecycle rule for incomplete uploads.
//
// Failures come back in the classes of package store. Networks, throttling and 5xx are store.ErrUnavailable after the retries.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/deltad/deltad/store"
)

// Values of Options.Checksum.
const (
	// WhenSupported sends a checksum with every upload and verifies those that come back: the default.
	WhenSupported = "when_supported"
	// WhenRequired does neither unless the operation demands it, for servers that do not know checksum trailers.
	WhenRequired = "when_required"
)

// Options say which bucket, how to reach it and how to write to it. Everything but Bucket may be left out; what is, comes from the
// SDK's usual chain of environment, shared configuration and instance.
type Options struct {
	Bucket   string
	Region   string
	Endpoint string // URL of a compatible server
	// PathStyle puts the bucket into the path instead of the host name.
	PathStyle bool
	Profile   string
	// RoleARN is assumed with the credentials found, with ExternalID if set.
	RoleARN       string
	ExternalID    string
	RequesterPays bool
	// ExpectedOwner is the account id that must own the bucket.
	ExpectedOwner string
	// CAFile is a PEM bundle that replaces the system's; it goes before AWS_CA_BUNDLE.
	CAFile string
	// Checksum is WhenSupported (also if empty) or WhenRequired.
	Checksum string

	// SSEKMSKeyID, ACL and Tags are given to every object written.
	SSEKMSKeyID string
	ACL         string
	Tags        map[string]string

	// Credentials replaces the SDK's chain.
	Credentials aws.CredentialsProvider
	// Attempts is how often a request is sent at most, 4 if zero.
	Attempts int
	// Timeout bounds connecting (a quarter of it), waiting for headers, and silence of a connection; 20 s if zero.
	Timeout time.Duration
	// PartSize is the size of the parts of large bodies, 8 MiB if zero, at least 5 MiB. Bodies over twice the size are split.
	PartSize int64
}

// Store is a bucket. Create it with New.
type Store struct {
	o        Options
	client   *s3.Client
	payer    types.RequestPayer
	owner    *string
	partSize int64
}

// New loads the SDK's configuration and returns the store. It reads environment and files, and sends nothing.
func New(ctx context.Context, o Options) (*Store, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("open s3://%s: %w", o.Bucket, err)
	}
	o = o.defaults()
	load := []func(*config.LoadOptions) error{
		// The SDK can give its CA bundle only to a client of its own type, so ours is one and is wrapped afterwards.
		config.WithHTTPClient(httpClient(o.Timeout)),
		config.WithLogger(logging.Nop{}), // what matters is in the errors; stderr is not the SDK's
		config.WithRetryer(func() aws.Retryer { return retryer(o.Attempts) }),
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	if o.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(o.Credentials))
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("open s3://%s: read ca_file: %w", o.Bucket, err)
		}
		load = append(load, config.WithCustomCABundle(bytes.NewReader(pem)))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("open s3://%s: load SDK configuration: %w", o.Bucket, err)
	}
	if cfg.Region == "" {
		if o.Endpoint == "" && cfg.BaseEndpoint == nil {
			return nil, fmt.Errorf("open s3://%s: region: not set, and neither is AWS_REGION or the profile's", o.Bucket)
		}
		cfg.Region = "us-east-1" // what compatible servers take
	}
	if o.RoleARN != "" {
		cfg.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), o.RoleARN,
			func(a *stscreds.AssumeRoleOptions) {
				a.RoleSessionName = "deltad"
				if o.ExternalID != "" {
					a.ExternalID = &o.ExternalID
				}
			}))
	}
	if cfg.Credentials != nil {
		cfg.Credentials = named{cfg.Credentials}
	}
	return newStore(o, cfg), nil
}

// named tells an error of the credentials from one of the store, which the SDK does not.
type named struct{ aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (n named) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := n.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %w", store.ErrCredentials, err)
	}
	return c, err
}

// IsCredentialsProvider lets the SDK see what is behind it: anonymous ones are not signed with.
func (n named) IsCredentialsProvider(target aws.CredentialsProvider) bool {
	return aws.IsCredentialsProvider(n.CredentialsProvider, target)
}

func newStore(o Options, cfg aws.Config) *Store {
	st := &Store{o: o, partSize: o.PartSize}
	if o.RequesterPays {
		st.payer = types.RequestPayerRequester
	}
	if o.ExpectedOwner != "" {
		st.owner = &o.ExpectedOwner
	}
	st.client = s3.NewFromConfig(cfg, func(c *s3.Options) {
		c.HTTPClient = guard{cfg.HTTPClient}
		c.UsePathStyle = o.PathStyle
		c.DisableLogOutputChecksumValidationSkipped = true
		if o.Endpoint != "" {
			c.BaseEndpoint = &o.Endpoint
		}
		c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
		c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
		if o.Checksum == WhenRequired {
			c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	return st
}

// Check returns all that is wrong with the options at once, each as "setting: rule, got value", joined.
func (o Options) Check() error {
	var errs []error
	if o.Bucket == "" {
		errs = append(errs, errors.New("bucket: must not be empty"))
	}
	if o.Endpoint != "" {
		if u, err := url.Parse(o.Endpoint); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			errs = append(errs, fmt.Errorf("endpoint: must be an http or https URL, got %q", o.Endpoint))
		}
	}
	if o.Checksum != "" && o.Checksum != WhenSupported && o.Checksum != WhenRequired {
		errs = append(errs, fmt.Errorf("checksum: must be %s or %s, got %q", WhenSupported, WhenRequired, o.Checksum))
	}
	if o.ExternalID != "" && o.RoleARN == "" {
		errs = append(errs, errors.New("external_id: needs role_arn"))
	}
	if o.ACL != "" && !knownACL(o.ACL) {
		errs = append(errs, fmt.Errorf("acl: must be a canned ACL such as bucket-owner-full-control, got %q", o.ACL))
	}
	if len(o.Tags) > 10 {
		errs = append(errs, fmt.Errorf("tags: at most 10, got %d", len(o.Tags)))
	}
	if o.PartSize != 0 && o.PartSize < 5<<20 {
		errs = append(errs, fmt.Errorf("part size: at least 5 MiB, got %d", o.PartSize))
	}
	return errors.Join(errs...)
}

func knownACL(acl string) bool {
	for _, v := range types.ObjectCannedACL("").Values() {
		if string(v) == acl {
			return true
		}
	}
	return false
}

func (o Options) defaults() Options {
	if o.Attempts <= 0 {
		o.Attempts = 4
	}
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	if o.PartSize == 0 {
		o.PartSize = 8 << 20
	}
	return o
}

// retryer is the SDK's standard one, with a quota per client, and with racing conditional writes retried as the protocol asks for.
func retryer(attempts int) aws.Retryer {
	return retry.NewStandard(func(r *retry.StandardOptions) {
		r.MaxAttempts = attempts
		r.MaxBackoff = 5 * time.Second
		r.Retryables = append(r.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{
			"ConditionalRequestConflict": {}, "OperationAborted": {},
		}})
	})
}

// String is s3://bucket.
func (s *Store) String() string { return "s3://" + s.o.Bucket }

// Client is the SDK's client, for tests that create their bucket.
func (s *Store) Client() *s3.Client { return s.client }
