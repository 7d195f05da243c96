"""Protobuf schemas: .proto files read, printed, compared, and turned into descriptors and back."""
