"""The families of models that can be read: for each a file with its configuration's reader and its table of names."""

from headwise.families.reading import architectures as architectures
from headwise.families.reading import gguf_names_of as gguf_names_of
from headwise.families.reading import names_of as names_of
from headwise.families.reading import read_config as read_config
from headwise.families.reading import read_gguf_config as read_gguf_config
from headwise.families.writing import is_body as is_body
from headwise.families.writing import settle as settle
from headwise.families.writing import write_config as write_config
