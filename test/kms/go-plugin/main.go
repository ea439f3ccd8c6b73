// A KMS v2 plug-in on grpc-go, with a key that is made when it starts. go-plugin SOCKET
package main

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"net"
	"os"

	"github.com/golang/protobuf/proto"
	"google.golang.org/grpc"
)

// The messages of kms.proto, as protoc would describe them.

type StatusRequest struct{}
type StatusResponse struct {
	Version string `protobuf:"bytes,1,opt,name=version,proto3"`
	Healthz string `protobuf:"bytes,2,opt,name=healthz,proto3"`
	KeyId   string `protobuf:"bytes,3,opt,name=key_id,proto3"`
}
type DecryptRequest struct {
	Ciphertext  []byte            `protobuf:"bytes,1,opt,name=ciphertext,proto3"`
	Uid         string            `protobuf:"bytes,2,opt,name=uid,proto3"`
	KeyId       string            `protobuf:"bytes,3,opt,name=key_id,proto3"`
	Annotations map[string][]byte `protobuf:"bytes,4,rep,name=annotations,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
}
type DecryptResponse struct {
	Plaintext []byte `protobuf:"bytes,1,opt,name=plaintext,proto3"`
}
type EncryptRequest struct {
	Plaintext []byte `protobuf:"bytes,1,opt,name=plaintext,proto3"`
	Uid       string `protobuf:"bytes,2,opt,name=uid,proto3"`
}
type EncryptResponse struct {
	Ciphertext  []byte            `protobuf:"bytes,1,opt,name=ciphertext,proto3"`
	KeyId       string            `protobuf:"bytes,2,opt,name=key_id,proto3"`
	Annotations map[string][]byte `protobuf:"bytes,3,rep,name=annotations,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
}

func (m *StatusRequest) Reset()           { *m = StatusRequest{} }
func (m *StatusRequest) String() string   { return proto.CompactTextString(m) }
func (*StatusRequest) ProtoMessage()      {}
func (m *StatusResponse) Reset()          { *m = StatusResponse{} }
func (m *StatusResponse) String() string  { return proto.CompactTextString(m) }
func (*StatusResponse) ProtoMessage()     {}
func (m *DecryptRequest) Reset()          { *m = DecryptRequest{} }
func (m *DecryptRequest) String() string  { return proto.CompactTextString(m) }
func (*DecryptRequest) ProtoMessage()     {}
func (m *DecryptResponse) Reset()         { *m = DecryptResponse{} }
func (m *DecryptResponse) String() string { return proto.CompactTextString(m) }
func (*DecryptResponse) ProtoMessage()    {}
func (m *EncryptRequest) Reset()          { *m = EncryptRequest{} }
func (m *EncryptRequest) String() string  { return proto.CompactTextString(m) }
func (*EncryptRequest) ProtoMessage()     {}
func (m *EncryptResponse) Reset()         { *m = EncryptResponse{} }
func (m *EncryptResponse) String() string { return proto.CompactTextString(m) }
func (*EncryptResponse) ProtoMessage()    {}

type plugin struct{ gcm cipher.AEAD }

const label, keyId = "nonce.go.example", "go-1"

// All annotations together may have at most 32 KiB.
var large = bytes.Repeat([]byte{0, 255, 10}, 10_900)

func (p plugin) status(*StatusRequest) (*StatusResponse, error) {
	return &StatusResponse{Version: "v2", Healthz: "ok", KeyId: keyId}, nil
}

func (p plugin) encrypt(r *EncryptRequest) (*EncryptResponse, error) {
	nonce := make([]byte, 12)
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	sealed := p.gcm.Seal(nil, nonce, r.Plaintext, nil)
	return &EncryptResponse{Ciphertext: sealed, KeyId: keyId, Annotations: map[string][]byte{label: nonce, "empty.go.example": {}, "large.go.example": large}}, nil
}

func (p plugin) decrypt(r *DecryptRequest) (*DecryptResponse, error) {
	_, hasEmpty := r.Annotations["empty.go.example"]
	if r.KeyId != keyId || len(r.Annotations) != 3 || !hasEmpty || !bytes.Equal(r.Annotations["large.go.example"], large) {
		return nil, fmt.Errorf("key id or annotations have changed")
	}
	plaintext, err := p.gcm.Open(nil, r.Annotations[label], r.Ciphertext, nil)
	return &DecryptResponse{Plaintext: plaintext}, err
}

type handler = func(interface{}, context.Context, func(interface{}) error, grpc.UnaryServerInterceptor) (interface{}, error)

func main() {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		panic(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	p := plugin{gcm}
	methods := map[string]handler{
		"Status": func(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
			request := new(StatusRequest)
			if err := decode(request); err != nil {
				return nil, err
			}
			return p.status(request)
		},
		"Encrypt": func(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
			request := new(EncryptRequest)
			if err := decode(request); err != nil {
				return nil, err
			}
			return p.encrypt(request)
		},
		"Decrypt": func(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
			request := new(DecryptRequest)
			if err := decode(request); err != nil {
				return nil, err
			}
			return p.decrypt(request)
		},
	}
	service := grpc.ServiceDesc{ServiceName: "v2.KeyManagementService", HandlerType: (*interface{})(nil)}
	for name, method := range methods {
		service.Methods = append(service.Methods, grpc.MethodDesc{MethodName: name, Handler: method})
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&service, p)
	fmt.Println("ready")
	panic(server.Serve(listener))
}
