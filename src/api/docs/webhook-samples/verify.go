package alerts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// VerifyAlert returns an error when the signature is wrong or older than five minutes.
func VerifyAlert(secret string, header http.Header, body []byte) error {
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(secret, "sigcb_v1_"))
	if err != nil {
		return err
	}
	timestamp := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("the alert is too old")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(header.Get("webhook-id") + "." + timestamp + "."))
	mac.Write(body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	// While a secret is rotated there are two signatures: one that fits is enough.
	for _, signature := range strings.Split(header.Get("webhook-signature"), " ") {
		if hmac.Equal([]byte(expected), []byte(signature)) {
			return nil
		}
	}
	return errors.New("the signature is wrong")
}
