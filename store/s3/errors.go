package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/deltad/deltad/store"
)

// fail gives an error of the SDK its class, its place and, where there is one, advice.
func (s *Store) fail(ctx context.Context, op, key string, err error) error {
	if cause := ctx.Err(); cause != nil {
		if !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return store.Fail(op, s.String(), key, nil, err)
	}
	hint, class := s.classify(op, err)
	if class != nil && strings.Contains(err.Error(), class.Error()) && errors.Is(err, class) {
		class = nil // the cause says it already
	}
	if hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
	}
	return store.Fail(op, s.String(), key, class, err)
}

// answer is what the server said: the code of the error document, or of nothing, and the HTTP status, 0 if it said nothing.
func answer(err error) (code, message string, status int, header http.Header) {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		code, message = api.ErrorCode(), api.ErrorMessage()
	}
	if re := (*awshttp.ResponseError)(nil); errors.As(err, &re) && re.Response != nil {
		status, header = re.HTTPStatusCode(), re.Response.Header
	}
	return code, message, status, header
}

// byCode are the codes that say more than the status, or something else: some servers use statuses of their own, and a refusal has been
// seen in the body of a 200.
var byCode = map[string]error{
	"NoSuchKey":                  store.ErrNotFound,
	"NotFound":                   store.ErrNotFound,
	"NoSuchBucket":               store.ErrNoBucket,
	"PreconditionFailed":         store.ErrPrecondition,
	"ConditionalRequestConflict": store.ErrConflict,
	"OperationAborted":           store.ErrConflict,
	"NotModified":                store.ErrNotModified,
	"InvalidRange":               store.ErrRange,
	"KeyTooLongError":            store.ErrBadKey,
	"ObjectParentIsFile":         store.ErrBadKey, // versitygw: "x" and "x/y"
	"ExistingObjectIsDirectory":  store.ErrBadKey, // SeaweedFS: the same
	"ExistingObjectIsFile":       store.ErrBadKey,
	"NotImplemented":             store.ErrUnsupported,
	"AccessDenied":               store.ErrDenied,
	"ExpiredToken":               store.ErrDenied,
	"InvalidToken":               store.ErrDenied,
	"XAdminUserNotFound":         store.ErrDenied, // versitygw: unknown access key, with status 404
	"SlowDown":                   store.ErrUnavailable,
	"RequestTimeout":             store.ErrUnavailable,
	"InternalError":              store.ErrUnavailable,
	"ServiceUnavailable":         store.ErrUnavailable,
	"NoSuchUpload":               store.ErrUnavailable, // swept by somebody: the put may be tried again
}

func (s *Store) classify(op string, err error) (hint string, class error) {
	if errors.Is(err, store.ErrCredentials) {
		return "looked for in the environment, the profile, a web identity and the instance's or container's role", store.ErrCredentials
	}
	for _, own := range []error{
		store.ErrBadListing, store.ErrBadKey, store.ErrRange, store.ErrPrecondition, store.ErrTooLarge, store.ErrUnsupported, store.ErrUnavailable,
	} {
		if errors.Is(err, own) {
			return "", own
		}
	}
	code, message, status, header := answer(err)
	if op == "put" && damaged(code, err) {
		return "damaged on the way up", store.ErrUnavailable
	}
	if op == "put" && s.o.Checksum != WhenRequired && checksumRefused(code, message, status) {
		return "a server that does not know checksum trailers needs `checksum: when_required`", store.ErrUnsupported
	}
	if class, ok := byCode[code]; ok {
		return "", class
	}
	switch {
	case status == 0 && code != "":
		return "", nil // an error document without a status: the code speaks
	case status == 0:
		return "", store.ErrUnavailable // the network
	case status == http.StatusNotFound && code == "":
		return "", store.ErrNotFound
	case status == http.StatusNotModified:
		return "", store.ErrNotModified
	case status == http.StatusPreconditionFailed:
		return "", store.ErrPrecondition
	case status == http.StatusConflict:
		return "", store.ErrConflict
	case status == http.StatusRequestedRangeNotSatisfiable:
		return "", store.ErrRange
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "", store.ErrDenied
	case status == http.StatusNotImplemented:
		return "", store.ErrUnsupported
	case status == http.StatusTooManyRequests, status >= 500, status < 300:
		return "", store.ErrUnavailable // an answer with a good status that could not be read is a broken answer
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect, code == "AuthorizationHeaderMalformed":
		if region := header.Get("X-Amz-Bucket-Region"); region != "" {
			return "the bucket is in region " + region, nil
		}
	}
	return "", nil
}

// damaged recognises an upload whose bytes are not those that its checksum was made of. A server that does not know checksum trailers
// takes their framing for the body and says the same of the signature's hash, so that code counts only where no trailer was sent.
func damaged(code string, err error) bool {
	switch code {
	case "BadDigest":
		return true
	case "XAmzContentSHA256Mismatch":
		re := (*awshttp.ResponseError)(nil)
		return errors.As(err, &re) && re.Response != nil && re.Response.Request != nil && re.Response.Request.Header.Get("X-Amz-Trailer") == ""
	}
	return false
}

// checksumRefused recognises the many ways in which servers refuse an upload with a checksum trailer.
func checksumRefused(code, message string, status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusLengthRequired, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
	default:
		return false
	}
	said := strings.ToLower(code + " " + message)
	for _, word := range []string{
		"aws-chunked", "trailer", "checksum", "contentsha256", "content-sha256", "streaming-", "content-encoding", "transfer-encoding",
		"missingcontentlength", "implies functionality", "crc32",
	} {
		if strings.Contains(said, word) {
			return true
		}
	}
	return false
}
