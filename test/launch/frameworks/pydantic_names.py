"""The names of pydantic 2 that DeepSpeed's configuration classes use, on Debian 12's pydantic 1.10:
what is checked (types, bounds, unknown keys) is pydantic's own work, the names alone differ."""
import sys
import types

import pydantic
from pydantic.main import ModelMetaclass

_CONFIG = {"populate_by_name": "allow_population_by_field_name", "validate_default": "validate_all"}
_UNKNOWN = ("protected_namespaces",)


def _field(*default, json_schema_extra=None, deprecated=None, **bounds):
    return pydantic.Field(*default, json_schema_extra=json_schema_extra, **bounds)


def _plain(method):
    return getattr(method, "__func__", method)


def _field_validator(*fields, mode="after"):
    def decorate(method):
        check = _plain(method)

        def validator(cls, value, values, field):
            if check.__code__.co_argcount > 2:
                return check(cls, value, types.SimpleNamespace(field_name=field.name, data=values))
            return check(cls, value)
        validator.__name__ = check.__name__  # and not its signature, which pydantic 1 looks at
        return pydantic.validator(*fields, pre=mode == "before", allow_reuse=True,
                                  check_fields=False)(validator)
    return decorate


def _model_validator(*, mode):
    def decorate(method):
        check = _plain(method)
        if mode == "before":
            return pydantic.root_validator(pre=True, allow_reuse=True)(
                lambda cls, values: check(cls, values))
        check.runs_after = True
        return check
    return decorate


class _Meta(ModelMetaclass):
    def __new__(mcs, name, bases, space, **options):
        config = space.pop("model_config", None)
        if config is not None:
            known = {_CONFIG.get(key, key): value for key, value in config.items()
                     if key not in _UNKNOWN}
            if "extra" in known:
                known["extra"] = pydantic.Extra(known["extra"])
            space["Config"] = type("Config", (), known)
        return super().__new__(mcs, name, bases, space, **options)

    @property
    def model_fields(cls):
        return {name: types.SimpleNamespace(
            json_schema_extra=field.field_info.extra.get("json_schema_extra"),
            get_default=lambda field=field, **_: field.get_default(),
            is_required=lambda field=field: bool(field.required))
            for name, field in cls.__fields__.items()}


class _Model(pydantic.BaseModel, metaclass=_Meta):
    class Config:
        keep_untouched = (types.FunctionType,)

    def __init__(self, **data):
        super().__init__(**data)
        checks = {name: value for base in reversed(type(self).__mro__)
                  for name, value in vars(base).items() if getattr(value, "runs_after", False)}
        for check in checks.values():
            check(self)

    @property
    def model_fields_set(self):
        return self.__fields_set__

    def model_dump(self, **_):
        return self.dict()


def install():
    if not pydantic.VERSION.startswith("1."):
        return
    module = types.ModuleType("pydantic")
    vars(module).update({name: getattr(pydantic, name) for name in dir(pydantic)
                         if not name.startswith("__")})
    module.__path__ = pydantic.__path__
    vars(module).update(BaseModel=_Model, Field=_field, ConfigDict=dict, VERSION="2.0",
                        field_validator=_field_validator, model_validator=_model_validator,
                        field_serializer=lambda *_, **__: lambda method: method)
    sys.modules["pydantic"] = module
